// SPDX-License-Identifier: BSD-3-Clause
// Reads a directory in the ways Java has: Client DIRECTORY. Prints what it found, for tests/clients/programs.sh.
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import java.nio.file.attribute.*;
import java.util.*;
import java.util.stream.*;
import java.util.zip.*;

public class Client {
  static void say(String what, Object value) {
    System.out.println(what + ": " + value);
  }

  interface Attempt {
    Object run() throws Exception;
  }

  static void attempt(String what, Attempt a) {
    try {
      say(what, a.run());
    } catch (Exception e) {
      say(what, e.getClass().getName() + ": " + e.getMessage());
    }
  }

  static long crc(byte[] b) {
    CRC32 c = new CRC32();
    c.update(b);
    return c.getValue();
  }

  static void streams(File blob) throws IOException {
    try (FileInputStream in = new FileInputStream(blob)) {
      say("available", in.available());
      say("skipped", in.skip(1000));
      byte[] b = in.readNBytes(5000);
      say("part", crc(b));
      say("rest", in.readAllBytes().length);
    }
    try (RandomAccessFile r = new RandomAccessFile(blob, "r")) {
      r.seek(12345);
      say("at", r.getFilePointer() + " " + r.readInt() + " " + r.length());
      r.seek(r.length());
      say("end", r.read());
    }
    try (BufferedReader r = new BufferedReader(new FileReader(new File(blob.getParent(), "src/main.c")))) {
      say("lines", r.lines().count());
    }
  }

  static void channels(Path blob) throws IOException {
    try (FileChannel c = FileChannel.open(blob)) {
      ByteBuffer b = ByteBuffer.allocateDirect(100000);
      int n = 0, got;
      while (n < 100000 && (got = c.read(b, n)) > 0) n += got;
      say("positional", n + " " + c.position() + " " + c.size());
      var map = c.map(FileChannel.MapMode.READ_ONLY, 4096, 200000);
      byte[] m = new byte[200000];
      map.get(m);
      say("mapped", crc(m));
      try (FileChannel out = FileChannel.open(Paths.get("out"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
        say("transferred", c.transferTo(10, 300000, out));
      }
      say("lock", c.tryLock(0, 10, true) != null);
    }
    say("copied", crc(Files.readAllBytes(Paths.get("out"))));
  }

  static void trees(Path top) throws IOException {
    try (Stream<Path> walk = Files.walk(top)) {
      walk.filter(p -> !p.toString().contains("repo")).sorted().forEach(p -> {
        attempt("walk", () -> {
          PosixFileAttributes a = Files.readAttributes(p, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
          return top.relativize(p) + " " + (a.isDirectory() ? "" : a.size()) + " " + a.lastModifiedTime() + " "
              + a.owner() + " " + PosixFilePermissions.toString(a.permissions());
        });
      });
    }
    try (DirectoryStream<Path> d = Files.newDirectoryStream(top, "*.db")) {
      List<String> names = new ArrayList<>();
      d.forEach(p -> names.add(p.getFileName().toString()));
      Collections.sort(names);
      say("stream", names);
    }
    String[] list = top.toFile().list();
    Arrays.sort(list);
    say("list", String.join(" ", list));
    File f = top.resolve("src").toFile();
    say("file", f.isDirectory() + " " + f.canRead() + " " + f.canWrite() + " " + f.lastModified());
    say("real", top.resolve("src/../lib/.").toRealPath());
    say("same", Files.isSameFile(top.resolve("src"), top.resolve("lib/../src")));
    Files.copy(top.resolve("blob"), Paths.get("copy"), StandardCopyOption.COPY_ATTRIBUTES);
    say("mismatch", Files.mismatch(top.resolve("blob"), Paths.get("copy")));
    try (FileSystem zip = FileSystems.newFileSystem(top.resolve("resources.zip"), (ClassLoader) null)) {
      say("zip", Files.readString(zip.getPath("inner/text")).length());
    }
    Files.delete(Paths.get("copy"));
    Files.delete(Paths.get("out"));
  }

  static void refused(Path top) {
    attempt("create", () -> Files.createFile(top.resolve("new")));
    attempt("directory", () -> Files.createDirectory(top.resolve("new")));
    attempt("delete", () -> { Files.delete(top.resolve("blob")); return 0; });
    attempt("write", () -> new FileOutputStream(top.resolve("blob").toFile()));
    attempt("random", () -> new RandomAccessFile(top.resolve("blob").toFile(), "rw"));
    attempt("move", () -> Files.move(top.resolve("blob"), top.resolve("blob2")));
    attempt("time", () -> Files.setLastModifiedTime(top.resolve("blob"), FileTime.fromMillis(0)));
    attempt("none", () -> Files.size(top.resolve("none")));
    attempt("not a directory", () -> Files.list(top.resolve("blob")).count());
    attempt("temporary", () -> File.createTempFile("x", "y", top.toFile()));
  }

  public static void main(String[] args) throws IOException {
    Path top = Paths.get(args[0]);
    streams(top.resolve("blob").toFile());
    channels(top.resolve("blob"));
    trees(top);
    refused(top);
    say("resource", Client.class.getResource("Client.class") != null);
  }
}

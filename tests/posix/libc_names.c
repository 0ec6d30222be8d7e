/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libc functions that open files by name inside libc, or read them through a stream: stdio, tables of users and mounts,
 * programs found in PATH, libraries, patterns, names. libc_calls.sh runs this on a plain directory and on mounts with
 * the same tree, and compares what is printed. Usage: DIR.
 */
#include "libc_calls.h"

static void streams(void) {
  char *line = NULL, word[64], buffer[8192];
  size_t room = 0;
  int number;
  FILE *f = fopen(P("a.txt"), "r");
  SHOW(getline(&line, &room, f));
  SHOW(getdelim(&line, &room, ' ', f));
  printf("%s|\n", line);
  SHOW(fscanf(f, "%d %63s", &number, word));
  printf("%d %s\n", number, word);
  SHOW(ftell(f));
  SHOW(ungetc('Q', f));
  SHOW(fgetc(f));
  fpos_t at;
  SHOW(fgetpos(f, &at));
  SHOW(fseeko(f, -20, SEEK_END));
  SHOW(fread_unlocked(word, 1, 60, f));
  SHOW(feof(f));
  SHOW(fsetpos(f, &at));
  SHOW(fgetc_unlocked(f));
  SHOW(fputs("x", f) == EOF && errno == EBADF);
  SHOW(ferror(f) != 0);
  clearerr(f);
  SHOW(fprintf(f, "%d", 1));
  SHOW(fwrite("x", 1, 1, f));
  SHOW(fflush(f));
  SHOW(fileno(f) > 2);
  SHOW(__freadable(f));
  SHOW(__fwritable(f));
  rewind(f);
  SHOW(getw(f));
  f = freopen(P("d/t.txt"), "r", f);
  SHOW(f != NULL && fgets(word, sizeof(word), f) != NULL);
  printf("%s", word);
  SHOW(fclose(f));
  f = fopen(P("a.txt"), "re");
  SHOW(setvbuf(f, buffer, _IOFBF, sizeof(buffer)));
  SHOW(fgetc(f));
  SHOW(fseek(f, 700, SEEK_SET));
  SHOW(fgetc(f));
  SHOW(fcntl(fileno(f), F_GETFD));
  SHOW(fclose(f));
  f = fdopen(open(P("a.txt"), O_RDONLY), "r");
  setvbuf(f, NULL, _IONBF, 0);
  SHOW(fgetc(f));
  SHOW(lseek(fileno(f), 0, SEEK_CUR));
  SHOW(fclose(f));
  SHOW(fopen(P("d"), "r") != NULL);
  SHOW(fopen(P("none"), "r") == NULL && errno == ENOENT);
  SHOW(fopen(P("a.txt"), "q") == NULL && errno == EINVAL);
  snprintf(buffer, sizeof(buffer), "wc -c <'%s'", P("a.txt"));
  f = popen(buffer, "r");
  SHOW(fscanf(f, "%d", &number));
  printf("%d\n", number);
  SHOW(pclose(f));
  free(line);
}

static void wide_streams(void) {
  wchar_t line[128];
  FILE *f = fopen(P("utf8.txt"), "r");
  SHOW(fgetws(line, 128, f) != NULL);
  printf("%ls", line);
  SHOW(fgetwc(f));
  SHOW(fwscanf(f, L"%100ls", line));
  printf("%ls\n", line);
  SHOW(fgetc(f));
  SHOW(fclose(f));
  f = fopen(P("utf8.txt"), "r,ccs=UTF-8");
  SHOW(fgetwc(f));
  SHOW(fclose(f));
  f = fopen(P("utf8.txt"), "r");
  SHOW((int)fputwc(L'x', f));
  SHOW(ferror(f) != 0);
  SHOW(fclose(f));
  f = fopen(P("utf8.txt"), "r");
  SHOW(fwprintf(f, L"%d", 1));
  SHOW(fputws(L"x", f));
  SHOW(fclose(f));
  f = fopen(P("utf8.txt"), "r");
  SHOW(fgetc(f));
  SHOW((int)fgetwc(f));
  SHOW(fwide(f, 1) < 0);
  SHOW(fclose(f));
}

static void tables(void) {
  FILE *f = fopen(P("passwd"), "r");
  const struct passwd *user;
  while ((user = fgetpwent(f)) != NULL) printf("%s %u %s\n", user->pw_name, user->pw_uid, user->pw_shell);
  fclose(f);
  f = fopen(P("group"), "r");
  const struct group *group;
  while ((group = fgetgrent(f)) != NULL) printf("%s %u\n", group->gr_name, group->gr_gid);
  fclose(f);
  f = fopen(P("mtab"), "r");
  const struct mntent *mount;
  while (f != NULL && (mount = getmntent(f)) != NULL) printf("%s %s\n", mount->mnt_dir, mount->mnt_type);
  SHOW(endmntent(f));
}

static void wait_for(pid_t pid) {
  int status = -1;
  waitpid(pid, &status, 0);
  printf("status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void programs(void) {
  static const char *const names[] = {"hello", "bare-script", "shebang", "not-executable", "missing", "sub"};
  char path[PATH_MAX * 2], *old = strdup(getenv("PATH"));
  snprintf(path, sizeof(path), "/nowhere:%s:%s:", P("bin"), old);
  setenv("PATH", path, 1);
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
    char *argv[] = {(char *)names[i], "argument", NULL};
    pid_t pid;
    printf("-- %s\n", names[i]);
    fflush(stdout);
    if ((pid = fork()) == 0) {
      execvp(names[i], argv);
      _exit(errno);
    }
    wait_for(pid);
    fflush(stdout);
    if ((pid = vfork()) == 0) {
      execlp(names[i], names[i], "argument", (char *)NULL);
      _exit(errno);
    }
    wait_for(pid);
    fflush(stdout);
    int err = posix_spawnp(&pid, names[i], NULL, NULL, argv, environ);
    if (err == 0) wait_for(pid);
    printf("posix_spawnp %s\n", strerrorname_np(err));
    fflush(stdout);
    snprintf(path, sizeof(path), "%s/bin/%s", base, names[i]);
    if ((pid = fork()) == 0) {
      execvpe(path, argv, environ);
      _exit(errno);
    }
    wait_for(pid);
  }
  setenv("PATH", old, 1);
  free(old);
}

static int open_descriptors(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (d != NULL && readdir(d) != NULL) n++;
  closedir(d);
  return n;
}

/* A library that is there already is the same one, and costs nothing more. */
static void same_library(void *handle) {
  int before = open_descriptors(), others = 0;
  for (int i = 0; i < 20; i++) others += dlopen(P("lib/libtest.so"), RTLD_NOW) != handle;
  SHOW(others);
  SHOW(open_descriptors() - before);
}

static void libraries(void) {
  void *plain = dlopen(P("lib/libtest.so"), RTLD_NOW), *apart = dlmopen(LM_ID_NEWLM, P("lib/libtest.so"), RTLD_NOW);
  int (*value)(void) = plain == NULL ? NULL : (int (*)(void))dlsym(plain, "value");
  SHOW(value != NULL ? value() : -2);
  SHOW(value != NULL ? value() : -2);
  value = apart == NULL ? NULL : (int (*)(void))dlsym(apart, "value");
  SHOW(value != NULL ? value() : -2);
  same_library(plain);
  SHOW(dlmopen(LM_ID_NEWLM, P("lib/none.so"), RTLD_NOW) == NULL);
  SHOW(dlopen("libnone.so", RTLD_NOW) == NULL);
  void *outer = dlopen(P("lib/libouter.so"), RTLD_NOW), *named = dlopen("libnamed.so", RTLD_NOW);
  value = outer == NULL ? NULL : (int (*)(void))dlsym(outer, "outer");
  SHOW(value != NULL ? value() : -2);
  value = named == NULL ? NULL : (int (*)(void))dlsym(named, "named");
  SHOW(value != NULL ? value() : -2);
  SHOW(dlopen(P("lib/libbroken.so"), RTLD_NOW) == NULL);
  SHOW(dlopen(P("a.txt"), RTLD_NOW) == NULL);
}

static void *open_dir(const char *path) {
  return opendir(path);
}
static void close_dir(void *dir) {
  closedir(dir);
}

static void show_glob(const char *pattern, int flags) {
  glob_t g = {0};
  if (flags & GLOB_ALTDIRFUNC) {
    g.gl_opendir = open_dir;
    g.gl_readdir = (struct dirent * (*)(void *)) readdir;
    g.gl_closedir = close_dir;
    g.gl_stat = stat;
    g.gl_lstat = lstat;
  }
  int r = glob(pattern, flags, NULL, &g);
  printf("glob %s %x: %d", strrchr(pattern, '/') == NULL ? pattern : strrchr(pattern, '/') + 1, flags, r);
  for (size_t i = 0; i < g.gl_pathc; i++) printf(" %s", cut(g.gl_pathv[i]));
  putchar('\n');
  globfree(&g);
}

static void show_words(const char *text) {
  wordexp_t w;
  int r = wordexp(text, &w, 0);
  printf("wordexp %s: %d", cut(text), r);
  for (size_t i = 0; r == 0 && i < w.we_wordc; i++) printf(" [%s]", cut(w.we_wordv[i]));
  putchar('\n');
  if (r == 0) wordfree(&w);
}

static void patterns(void) {
  static const int flags[] = {0,
                              GLOB_MARK,
                              GLOB_NOSORT * 0,
                              GLOB_NOCHECK,
                              GLOB_ALTDIRFUNC,
                              GLOB_BRACE | GLOB_MARK,
                              GLOB_ONLYDIR,
                              GLOB_PERIOD | GLOB_MARK};
  static const char *const texts[] = {"*", "*/*", "d/f[0-3]*", "{a,b}*", "none*",
                                      "d", ".*",  "?*.txt",    "dang*",  "to-d/*"};
  for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
    for (size_t j = 0; j < sizeof(texts) / sizeof(*texts); j++) show_glob(P(texts[j]), flags[i]);
  setenv("DIR", base, 1);
  char above[PATH_MAX * 2];
  snprintf(above, sizeof(above), "%.*s?/[ab].txt", (int)strlen(base) - 1, base);
  show_glob(above, 0);
  show_words("$DIR/a.txt $DIR/none plain");
  show_words("'$DIR/*' \"$DIR/*\" $DIR/\\*.txt");
  show_words("$(cat $DIR/d/t.txt) `echo $DIR/b*`");
  struct dirent **list = NULL;
  int n = scandir(P("d"), &list, NULL, versionsort);
  for (int i = 0; i < n; i++) printf("%s ", list[i]->d_name);
  putchar('\n');
}

static void names(void) {
  char text[PATH_MAX], template[PATH_MAX];
  snprintf(template, sizeof(template), "%s/d/xXXXXXX", base);
  SHOW(strlen(mktemp(template)) == strlen(base) + 10 && strcmp(template + strlen(base) + 4, "XXXXXX") != 0);
  snprintf(template, sizeof(template), "%s/short", base);
  SHOW(mktemp(template)[0] == '\0' && errno == EINVAL);
  printf("%s\n", cut(realpath(P("to-d/../d/t.txt"), text)));
  printf("%s\n", cut(canonicalize_file_name(P("to-d"))));
  SHOW(chdir(P("to-d")));
  printf("%s %s %s\n", cut(getcwd(text, sizeof(text))), cut(get_current_dir_name()), cut(getwd(text)));
  show_glob("f*", 0);
  SHOW(chdir("/"));
  FILE *f = tmpfile();
  SHOW(f != NULL && fputs("x", f) >= 0 && fclose(f) == 0);
}

int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc != 2) return 2;
  base = argv[1];
  setlocale(LC_ALL, "");
  streams();
  wide_streams();
  tables();
  programs();
  libraries();
  patterns();
  names();
  return 0;
}

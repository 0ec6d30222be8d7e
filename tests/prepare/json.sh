#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The fields of fs-prepare's JSON are those that docs/fs-prepare.1 names, those of info and list have the names and types of
# json_fields.txt, and list --json tells what stat does. unpack --files restores a part of a dataset.
. "$(dirname "$0")/../functions.sh"

prepare=$bin/fs-prepare
ok() { echo "ok - $*"; }
cd "$work"
mkdir -p source/a/b source/c
seq 20000 >source/a/text
seq 20000 | tr 1 2 >source/a/b/text
printf 'odd' >$'source/c/\xff"name\n'
: >source/c/empty
ln source/a/text source/c/hard
ln source/a/text source/c/harder
ln -s ../a/text source/c/symlink
chmod 4640 source/a/b/text
touch -d '1999-12-31 23:59:59.25' source/c
"$prepare" pack --replicate b --json-progress progress source ds >/dev/null

"$prepare" info --json ds >info.json
"$prepare" list --json ds >list.json
"$python" - "$root/docs/fs-prepare.1" "$root/tests/prepare/json_fields.txt" <<'PY'
import json, os, re, stat, sys

page = open(sys.argv[1]).read().replace("\\-", "-")


def documented(option, section):
    part = re.search(r"^\.SH %s$(.*?)(?=^\.SH |\Z)" % section, page, re.S | re.M)[1]
    part = re.search(r"^\.BI? %s.*?^\.RS$(.*?)^\.RE$" % re.escape(option), part, re.S | re.M)[1]
    rows = re.findall(r"^\.TP\n\.IR? (.*)$", part, re.M)
    return {word for row in rows for word in re.sub(r'"[^"]*"', " ", row).split()}


def fields(value, before=""):
    found = set()
    for key, inner in value.items():
        found.add(before + key)
        for item in inner if isinstance(inner, list) else []:
            found |= fields(item, before + key + "[].")
    return found


TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def types(value, before=""):
    found = set()
    for key, inner in value.items():
        found.add(before + key + " " + TYPES[type(inner)])
        for item in inner if isinstance(inner, list) else []:
            found |= types(item, before + key + "[].")
    return found


def frozen(command, seen):
    """Compares with the lines of json_fields.txt. What is to be done is in CONTRIBUTING.md, "Add a field to JSON"."""
    words = [line.split() for line in open(sys.argv[2]) if line[0] != "#"]
    kept = {" ".join(w[1:]) for w in words if w[0] == command}
    assert kept <= seen, f"{command} --json: programs that people wrote need {sorted(kept - seen)}, which may not go"
    assert seen <= kept, f"{command} --json: not in json_fields.txt: {sorted(seen - kept)}"


def same(what, named, seen):
    assert named == seen, f"{what}: not documented {seen - named}, not there {named - seen}"


info = json.load(open("info.json"))
entries = [json.loads(line) for line in open("list.json")]
same("info", documented("--json", "INFO"), fields(info))
frozen("info", types(info))
frozen("list", set().union(*map(types, entries)))
same("list", documented("--json", "LIST"), set().union(*map(fields, entries)))
same("progress", documented("--json-progress", "PACK"), set().union(*(fields(json.loads(l)) for l in open("progress"))))

assert info["files"] == 6 and info["hard_links"] == 2 and info["partitions"][-1]["replicate"] is True, info
inodes = {}
for e in entries:
    path = "source/" + e["path"].encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    st = os.lstat(path)
    kind = {"file": stat.S_IFREG, "dir": stat.S_IFDIR, "symlink": stat.S_IFLNK}[e["type"]]
    assert st.st_mode == kind | int(e["mode"], 8) and st.st_mtime_ns == e["mtime"] * 10**9 + e["mtime_nsec"], e
    assert (st.st_nlink, st.st_size) == (e["links"], e["size"]) or kind == stat.S_IFDIR, e
    assert inodes.setdefault(st.st_ino, e["inode"]) == e["inode"], e
    assert e.get("target") == (os.readlink(path) if kind == stat.S_IFLNK else None), e
    assert ("codec" in e) == (kind == stat.S_IFREG), e
assert len(entries) == sum(len(d) + len(f) for _, d, f in os.walk("source")) and len(set(inodes.values())) == len(inodes)
PY
ok 'the fields of JSON are those of the manual page'

# restores WHAT... -- PATH...: these patterns restore these paths
restores() {
  local args=()
  while [ "$1" != -- ]; do args+=(--files "$1"); shift; done
  shift
  rm -rf part
  expect_status 0 "$prepare" unpack "${args[@]}" ds part
  equal "what ${args[*]} restores" "$*" "$(cd part && find . -mindepth 1 | sed 's,^\./,,' | sort | tr '\n' ' ' | sed 's/ $//')"
}
restores text -- a a/b a/b/text a/text
restores 'a/*' -- a a/b a/b/text a/text
restores b -- a a/b a/b/text
restores c/empty a/text -- a a/text c c/empty
restores 'c/hard*' -- c c/hard c/harder
cmp part/c/hard source/a/text
equal 'links of the part' 2 "$(stat -c %h part/c/harder)"
equal 'time of a directory on the way' "$(stat -c %y source/c)" "$(stat -c %y part/c)"
restores c/symlink harder -- c c/harder c/symlink
rm -rf part
expect_status 0 "$prepare" unpack --files '**' ds part
diff -r source part
expect_status 1 "$prepare" unpack --files text --files nosuch ds none
one_line err "files 'nosuch': matches nothing"
[ ! -e none ] || fail 'unpacked nevertheless'
ok 'unpack --files restores what matches'

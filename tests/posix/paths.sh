#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Paths of every kind on a file system and on a mount at the same path: a table, and random ones of fixed seeds.
. "$(dirname "$0")/../functions.sh"
. "$(dirname "$0")/paths.bash"

# "@" changes the current directory.
sed "s|TREE|$tree|; s|TOP|$top|" >"$work/table" <<'END'
TREE
TREE/
TREE//a/./../c.txt
TREE/..
TREE/../..
TREE/../../m/n/tree/c.txt
TREE/../../../o/file
TREE/../none
TREE/none
TREE/none/
TREE/none/..
TREE/c.txt/
TREE/c.txt/.
TREE/c.txt/..
TREE/la
TREE/la/
TREE/la/..
TREE/lup
TREE/lup/tree/c.txt
TREE/d/e/lup/e/f.txt
TREE/labs
TREE/labs/e
TREE/labs/../c.txt
TREE/lout
TREE/lout/
TREE/lout/file
TREE/lout/..
TREE/lout/../m/n/tree/c.txt
TREE/lout/om/c.txt
TREE/lout/od/../r2/extra
TREE/lout/od/../../file
TREE/lrel/r2/extra
TREE/lrel/..
TREE/lloop
TREE/lloop/x
TREE/ldang
TREE/ldang/
TREE/lself/lself/lself/c.txt
TREE/k40
TREE/k41
TOP
TOP/
TOP/.
TOP/m
TOP/m/
TOP/m/.
TOP/m/..
TOP/m/n
TOP/m/n/..
TOP/m/none
TOP/m/n/none/x
TOP/m/n/tree2
TOP/o/om
TOP/o/om/
TOP/o/om/a
TOP/o/om/..
TOP/o/oma
TOP/o/oma/lfile
TOP/o/oma/../c.txt
TOP/o/oma/../../../../o/file
TOP/o/od/../r2
TOP/o/od/../../m/n/tree/c.txt
TOP/o/od/../m/n/tree/c.txt
TOP/o/oup/m/n/tree
TOP/o/oanc
TOP/o/oanc/n/tree/c.txt
TOP/o/oanc/../o/file
TOP/o/odang
TOP/o/file/../../m/n/tree/c.txt
TOP/o/none/../../m/n/tree/c.txt
@TREE/d
e/f.txt
../c.txt
../../tree/c.txt
../../../o/file
../../../../top/o/file
..
../..
../../..
.

@TOP/m
n
n/tree
n/tree/c.txt
..
../o/file
none
@TOP
m
m/n/tree/c.txt
./m/../m/n/tree
o/om/c.txt
o/../m/n/tree/c.txt
@TOP/o
om/c.txt
../m
../m/n/tree/c.txt
od/..
od/../../om/c.txt
@TREE/labs/e
lup
../..
@lup
@TOP/o/oma
@..
@../../..
@TREE/c.txt
@TREE/none
@TOP/o
../m
../m/n
./../m
.././m/n/tree/c.txt
TOP/o/r1/../../m
TOP//m
TOP/./m/n
END
say "$(wc -l <"$work/table") paths of the table"
compare "table" "$work/table" -
for seed in 1 2 3 258230; do
  say "1000 random paths of seed $seed"
  compare "seed $seed" /dev/null "$seed" 1000
done

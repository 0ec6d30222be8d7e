// SPDX-License-Identifier: BSD-3-Clause
// A static Go program for clients.sh: walks a tree, reads and maps its files in many goroutines, starts
// children in it. Usage: DIRECTORY, as make_tree makes one, with bin/busybox in it.
package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
)

func main() {
	root := os.Args[1]
	var files []string
	n := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		r, _ := filepath.Rel(root, p)
		if !d.IsDir() {
			fmt.Println(r, i.Mode(), i.Size(), i.ModTime().UnixNano())
		}
		n++
		if d.Type().IsRegular() {
			files = append(files, p)
		}
		return nil
	})
	fmt.Println(n, err)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var out []string
	for w := 0; w < 16; w++ {
		wg.Add(1)
		go func(w int) {
			defer wg.Done()
			for i := w; i < len(files); i += 16 {
				b, err := os.ReadFile(files[i])
				f, _ := os.Open(files[i])
				st, _ := f.Stat()
				s := ""
				if st.Size() > 0 {
					m, e := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
					s = fmt.Sprintf("%x %v", sha256.Sum256(m), e)
					syscall.Munmap(m)
				}
				f.Close()
				mu.Lock()
				out = append(out, fmt.Sprintf("%s %x %v %s", files[i][len(root):], sha256.Sum256(b), err, s))
				mu.Unlock()
			}
		}(w)
	}
	wg.Wait()
	sort.Strings(out)
	for _, o := range out {
		fmt.Println(o)
	}
	es, err := os.ReadDir(filepath.Join(root, "train"))
	fmt.Println(len(es), err)
	fmt.Println(os.Chdir(filepath.Join(root, "train")))
	es, err = os.ReadDir(".")
	fmt.Println(len(es), err)
	wd, err := os.Getwd()
	fmt.Println(wd, err)
	c := exec.Command(root+"/bin/busybox", "ls")
	c.Dir = filepath.Join(root, "links")
	b, err := c.CombinedOutput()
	fmt.Println(string(b), err)
	b, err = exec.Command(root+"/bin/busybox", "pwd").CombinedOutput()
	fmt.Println(string(b), err)
	b, err = exec.Command(root+"/bin/script", "x y", "z").CombinedOutput()
	fmt.Println(string(b), err)
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The page of --report FILE.html as text: page.c fills it in. The Makefile knows what it includes. */
  .section .rodata.fs_page, "a"
  .global fs_page_html, fs_page_html_size, fs_page_js, fs_page_js_size
  .hidden fs_page_html, fs_page_html_size, fs_page_js, fs_page_js_size
  .balign 4
fs_page_html_size:
  .long 2f - 1f
fs_page_js_size:
  .long 3f - 2f
fs_page_html:
1:
  .incbin "fs-launch/report.html"
fs_page_js:
2:
  .incbin "fs-launch/report.js"
3:
  .section .note.GNU-stack, "", %progbits

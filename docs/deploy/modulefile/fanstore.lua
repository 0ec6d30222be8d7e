-- SPDX-License-Identifier: BSD-3-Clause
-- For Lmod. `make install` fills in the paths.
local prefix = "@PREFIX@"
whatis("FanStore: node-local storage for the data of deep-learning jobs")
help("FanStore feeds deep-learning jobs from node-local storage: man fs-launch, man fs-prepare")
conflict("fanstore")
prepend_path("PATH", prefix .. "/bin")
prepend_path("PKG_CONFIG_PATH", "@PKGCONFIGDIR@")
-- Without MANPATH, man finds the pages by PATH. A MANPATH of one directory would hide the system's.
if os.getenv("MANPATH") then prepend_path("MANPATH", prefix .. "/share/man") end

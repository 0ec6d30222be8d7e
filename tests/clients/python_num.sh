#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# numpy, pandas, zarr, h5py, PIL and OpenCV.
. "$(dirname "$0")/harness.bash"
need_module numpy pandas zarr h5py cv2 PIL

# OpenCV's messages begin with the seconds since its start.
export OPENCV_LOG_LEVEL=SILENT OPENCV_FFMPEG_LOGLEVEL=-8
data() { "$python" "$root/tests/clients/python/make_numeric.py" "$1" 2>"$work/make.log"; }
for part in arrays hdf5 images; do
  many $part "\"\$PYTHON\" \"\$C/python/num_$part.py\" \"\$D\" \"\$W/s\""
done
compare

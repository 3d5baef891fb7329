package getter

import (
	"archive/zip"
	"fmt"
	"math"
)

// checkZip checks the entries of the central directory. The library unpacks only these, and fails if the
// content of a file has another size than its entry.
func checkZip(src string, e *entries) error {
	z, err := zip.OpenReader(src)
	if err != nil {
		return err
	}
	defer z.Close()
	var size uint64
	for _, f := range z.File {
		mode := f.Mode()
		if !mode.IsRegular() && !mode.IsDir() {
			return fmt.Errorf("%q is %s", f.Name, kindOf(mode))
		}
		if f.UncompressedSize64 > math.MaxInt64-size {
			return &tooLarge{"its content", e.limits.Unpacked}
		}
		if size += f.UncompressedSize64; e.limits.Unpacked > 0 && size > uint64(e.limits.Unpacked) {
			return &tooLarge{"its content", e.limits.Unpacked}
		}
		if err := e.add(f.Name, mode.IsDir()); err != nil {
			return err
		}
	}
	return nil
}

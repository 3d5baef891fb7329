package fingerprint

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memory returns the size of the memory.
func memory(h *Host) (Facts, error) {
	var f Facts
	total := h.meminfo("MemTotal")
	if total == 0 && h.cfg.MemoryMB == 0 {
		return f, fmt.Errorf("no MemTotal in /proc/meminfo")
	}
	f.MemoryMB = total >> 20
	if h.cfg.MemoryMB > 0 {
		f.MemoryMB = int64(h.cfg.MemoryMB)
		total = f.MemoryMB << 20
	}
	f.set("memory.totalbytes", strconv.FormatInt(total, 10))
	return f, nil
}

// meminfo returns a value of /proc/meminfo in bytes, or 0.
func (h *Host) meminfo(key string) int64 {
	file, err := os.Open(h.path("/proc/meminfo"))
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if name != key {
			continue
		}
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		return kib << 10
	}
	return 0
}

// storage returns the size of the disk that holds the allocations.
func storage(h *Host) (Facts, error) {
	var f Facts
	dir, err := existing(h.cfg.AllocDir)
	if err != nil {
		return f, err
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return f, fmt.Errorf("size of the disk of %s: %w", dir, err)
	}
	total := int64(fs.Blocks) * fs.Bsize
	f.DiskMB = total >> 20
	if h.cfg.DiskMB > 0 {
		f.DiskMB = int64(h.cfg.DiskMB)
		total = f.DiskMB << 20
	}
	f.set("unique.storage.bytestotal", strconv.FormatInt(total, 10))
	f.set("unique.storage.volume", h.deviceOf(dir))
	return f, nil
}

// existing returns dir or its nearest existing parent.
func existing(dir string) (string, error) {
	for {
		if _, err := os.Stat(dir); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no directory above %s exists", dir)
		}
		dir = up
	}
}

// deviceOf returns the source of the mount that contains dir.
func (h *Host) deviceOf(dir string) string {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return ""
	}
	dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	file, err := os.Open(h.path("/proc/self/mountinfo"))
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 7 || words[2] != dev {
			continue
		}
		for i, w := range words {
			if w == "-" && i+2 < len(words) {
				return words[i+2]
			}
		}
	}
	return ""
}

// Package hoststats measures the host of a node: memory, processors and file systems. It reads /proc and statfs(2), only on
// request, and has no goroutines.
package hoststats

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// minInterval is the minimum interval of a processor usage measurement.
const minInterval = 100 * time.Millisecond

// Host measures the host on request. Processor usage covers the time since the previous
// request, or since boot.
type Host struct {
	allocDir string
	devices  func() []*message.DeviceGroupStats

	mu   sync.Mutex
	mhz  float64 // of all cores together; 0 before the node is fingerprinted
	last map[string]cpuTime
	at   time.Time
	cpus []*message.HostCPUStats
}

// cpuTime is a line of /proc/stat in ticks.
type cpuTime struct{ user, system, idle, total uint64 }

// New returns a Host. The file system of allocDir is measured apart from those on block devices. devices
// returns the statistics of the node's devices.
func New(allocDir string, devices func() []*message.DeviceGroupStats) *Host {
	return &Host{allocDir: allocDir, devices: devices}
}

// Measure returns the current usage of the host.
func (h *Host) Measure() (*message.HostStats, error) {
	mem, err := memoryStats()
	if err != nil {
		return nil, err
	}
	cpus, err := h.cpuStats()
	if err != nil {
		return nil, err
	}
	var ticks float64
	for _, c := range cpus {
		ticks += c.TotalTicks
	}
	return &message.HostStats{
		Memory: mem, CPU: cpus,
		DiskStats: diskStats(), AllocDirStats: diskOf("", h.allocDir), DeviceStats: h.devices(),
		Uptime: uptime(), Timestamp: time.Now().UnixNano(),
		CPUTicksConsumed: ticks,
	}, nil
}

func memoryStats() (*message.HostMemoryStats, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, fmt.Errorf("measure memory: %w", err)
	}
	val := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		key, rest, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		val[key] = kib << 10
	}
	m := &message.HostMemoryStats{Total: val["MemTotal"], Available: val["MemAvailable"], Free: val["MemFree"]}
	m.Used = m.Total - min(m.Total, m.Free+val["Buffers"]+val["Cached"])
	return m, nil
}

// SetSpeed sets the speed of all cores together, in MHz.
func (h *Host) SetSpeed(mhz float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mhz = mhz
}

// cpuStats compares /proc/stat with the previous sample.
func (h *Host) cpuStats() ([]*message.HostCPUStats, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cpus != nil && time.Since(h.at) < minInterval {
		return h.cpus, nil
	}
	now, err := readCPUTimes()
	if err != nil {
		return nil, err
	}
	h.cpus = nil
	for name, t := range now {
		before := h.last[name]
		total := float64(t.total - before.total)
		if total <= 0 {
			total = 1
		}
		s := &message.HostCPUStats{
			CPU:    name,
			User:   100 * float64(t.user-before.user) / total,
			System: 100 * float64(t.system-before.system) / total,
			Idle:   100 * float64(t.idle-min(t.idle, before.idle)) / total,
		}
		s.TotalPercent = max(0, 100-s.Idle)
		s.TotalTicks = s.TotalPercent / 100 * h.mhz / float64(len(now))
		h.cpus = append(h.cpus, s)
	}
	slices.SortFunc(h.cpus, func(a, b *message.HostCPUStats) int { return strings.Compare(a.CPU, b.CPU) })
	h.last, h.at = now, time.Now()
	return h.cpus, nil
}

// readCPUTimes reads the per-processor lines.
func readCPUTimes() (map[string]cpuTime, error) {
	file, err := os.Open("/proc/stat")
	if err != nil {
		return nil, fmt.Errorf("measure processors: %w", err)
	}
	defer file.Close()
	times := map[string]cpuTime{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 5 || !strings.HasPrefix(words[0], "cpu") || words[0] == "cpu" {
			continue
		}
		var n [8]uint64
		for i := range n {
			if i+1 < len(words) {
				n[i], _ = strconv.ParseUint(words[i+1], 10, 64)
			}
		}
		t := cpuTime{user: n[0] + n[1], system: n[2], idle: n[3] + n[4]}
		for _, v := range n {
			t.total += v
		}
		times[words[0]] = t
	}
	return times, nil
}

// diskStats returns the usage of the file systems on devices.
func diskStats() []*message.HostDiskStats {
	file, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil
	}
	defer file.Close()
	var disks []*message.HostDiskStats
	seen := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 3 || !strings.HasPrefix(words[0], "/dev/") || seen[words[0]] {
			continue
		}
		seen[words[0]] = true
		if d := diskOf(words[0], words[1]); d != nil {
			disks = append(disks, d)
		}
	}
	return disks
}

// diskOf measures one file system. It returns nil on failure.
func diskOf(device, dir string) *message.HostDiskStats {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Blocks == 0 {
		return nil
	}
	return statsOf(device, dir, fs)
}

// statsOf returns the usage of a file system. UsedPercent is the value that garbage collection compares.
func statsOf(device, dir string, fs unix.Statfs_t) *message.HostDiskStats {
	size := uint64(fs.Bsize)
	d := &message.HostDiskStats{
		Device: device, Mountpoint: dir,
		Size: fs.Blocks * size, Available: fs.Bavail * size, Used: (fs.Blocks - fs.Bfree) * size,
		UsedPercent: usedBlocks(fs),
	}
	if fs.Files > 0 {
		d.InodesUsedPercent = 100 * float64(fs.Files-fs.Ffree) / float64(fs.Files)
	}
	return d
}

// uptime returns the seconds since boot.
func uptime() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return uint64(info.Uptime)
}

// Disk measures the usage of the file system of dir, in percent.
func Disk(dir string) (usedPercent, inodePercent float64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("measure disk of %s: %w", dir, err)
	}
	if fs.Blocks == 0 {
		return 0, 0, errors.New("the file system reports no size")
	}
	usedPercent = usedBlocks(fs)
	if fs.Files > 0 {
		inodePercent = 100 * float64(fs.Files-fs.Ffree) / float64(fs.Files)
	}
	return usedPercent, inodePercent, nil
}

// usedBlocks returns the percentage that df(1) prints: blocks reserved for root count neither
// as used nor as available.
func usedBlocks(fs unix.Statfs_t) float64 {
	used := float64(fs.Blocks - fs.Bfree)
	if used == 0 {
		return 0
	}
	return 100 * used / (used + float64(fs.Bavail))
}

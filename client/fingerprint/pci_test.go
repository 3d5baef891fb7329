package fingerprint_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/fingerprint"
)

// Display adapters and accelerators are reported with their kinds and numbers, and other devices are not.
func TestPCI(t *testing.T) {
	devices := map[string][3]string{
		"0000:01:00.0": {"0x030200", "0x10de", "0x1eb8"}, "0000:02:00.0": {"0x030200", "0x10de", "0x1eb8"},
		"0000:03:00.0": {"0x030000", "0x102b", "0x0534"},
		"0000:04:00.0": {"0x120000", "0x1da3", "0x1020"}, "0000:05:00.0": {"0x020000", "0x8086", "0x100e"}, "0000:06:00.0": {"", "", ""},
	}
	files := map[string]string{}
	for name, d := range devices {
		for i, file := range []string{"class", "vendor", "device"} {
			files["/sys/bus/pci/devices/"+name+"/"+file] = d[i]
		}
	}
	for name, c := range map[string]struct {
		files map[string]string
		deny  []string
		want  map[string]string
	}{
		"devices": {files, nil, map[string]string{"pci.display": "102b:0534,10de:1eb8", "pci.display.count": "3", "pci.accelerator": "1da3:1020",
			"pci.accelerator.count": "1"}},
		"denied": {files, []string{"pci"}, map[string]string{}},
		"no bus": {nil, nil, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := fingerprint.NewHost(machine(t, c.files),
				fingerprint.Config{AllocDir: t.TempDir(), Loopback: true, Deny: c.deny}).Run(context.Background(), quiet)
			got := maps.Clone(facts.Attributes)
			maps.DeleteFunc(got, func(key, _ string) bool { return !strings.HasPrefix(key, "pci.") })
			if !maps.Equal(got, c.want) {
				t.Errorf("attributes = %v, want %v", got, c.want)
			}
		})
	}
}

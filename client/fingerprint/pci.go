package fingerprint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxPCI limits how many devices are looked at.
const maxPCI = 4096

// pciClasses are the reported classes of PCI devices, by the first two digits of their class code.
var pciClasses = map[string]string{"03": "pci.display", "12": "pci.accelerator"}

// pci returns the kinds and the numbers of display adapters, which include GPUs, and of accelerators. A kind
// is "<vendor>:<device>", in hexadecimal. These attributes are not in Nomad.
func pci(h *Host) (Facts, error) {
	var f Facts
	const root = "/sys/bus/pci/devices"
	dir, err := os.Open(h.path(root))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil // a machine without the bus
	}
	if err != nil {
		return f, fmt.Errorf("list PCI devices: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxPCI)
	if err != nil && !errors.Is(err, io.EOF) {
		return f, fmt.Errorf("list PCI devices: %w", err)
	}
	kinds := map[string][]string{} // of each device, by attribute
	for _, name := range names {
		read := func(file string) string { return strings.TrimPrefix(h.text(root+"/"+name+"/"+file), "0x") }
		class, vendor, device := read("class"), read("vendor"), read("device")
		if len(class) < 2 || vendor == "" || device == "" {
			continue
		}
		if key := pciClasses[class[:2]]; key != "" {
			kinds[key] = append(kinds[key], vendor+":"+device)
		}
	}
	for key, all := range kinds {
		f.set(key+".count", strconv.Itoa(len(all)))
		slices.Sort(all)
		f.set(key, strings.Join(slices.Compact(all), ","))
	}
	return f, nil
}

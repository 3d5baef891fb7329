package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// Names in the directory.
const (
	lockSuffix   = ".lock"
	recordSuffix = ".json"
	maxRecord    = 1 << 20
)

// record is the network of an allocation.
type record struct {
	Alloc  string
	Path   string          // of the namespace
	Bridge string          // its name, "" for a network of a CNI configuration
	Config json.RawMessage // the list of plugins
	Args   [][2]string
	Ports  []portMapping
	// Isolated is the requested isolation; the other fields are set once the allocation is connected.
	Isolated bool
	Limited  bool
	Egress   []string
	Port     string // the interface on the node
	MAC      string
	// Status is nil until the allocation is connected.
	Status *nomad.AllocNetworkStatus
}

// portMapping is a port map in the form of the plugin for port maps.
type portMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

func load(d *safefs.Dir, alloc string) (*record, error) {
	raw, err := d.ReadFile(alloc+recordSuffix, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &record{}
	if err == nil {
		err = json.Unmarshal(raw, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read the network of allocation %s: %w", alloc, err)
	}
	return r, nil
}

func (r *record) store(d *safefs.Dir) error {
	raw, err := json.Marshal(r)
	if err == nil {
		err = d.Replace(r.Alloc+recordSuffix, raw, safefs.File{Mode: 0o600, UID: -1, GID: -1})
	}
	if err != nil {
		return fmt.Errorf("store the network of allocation %s: %w", r.Alloc, err)
	}
	return nil
}

func (r *record) remove(d *safefs.Dir) error {
	if err := d.Remove(r.Alloc + recordSuffix); err != nil {
		return fmt.Errorf("remove the record of the network of allocation %s: %w", r.Alloc, err)
	}
	return nil
}

// recorded returns the IDs of the allocations with a record.
func recorded(d *safefs.Dir) ([]string, error) {
	names, err := d.Names()
	if err != nil {
		return nil, fmt.Errorf("list networks of allocations: %w", err)
	}
	var ids []string
	for _, name := range names {
		if id, ok := strings.CutSuffix(name, recordSuffix); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

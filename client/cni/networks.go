package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/utils"
)

// Limits of the directory of configurations.
const (
	maxConfig  = 1 << 20
	maxConfigs = 256
)

// ErrUnknownNetwork means that no configuration has the name.
var ErrUnknownNetwork = errors.New("no CNI configuration has this name")

// Network is a configured network.
type Network struct {
	Name string
	File string
	List *libcni.NetworkConfigList
}

// Networks returns the networks of a directory, in the order of the files. Files that cannot be used
// are left out and reported.
func Networks(dir string) ([]Network, []error) {
	entries, err := os.ReadDir(dir) // sorted
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{fmt.Errorf("list CNI configurations: %w", err)}
	}
	var out []Network
	var errs []error
	for _, e := range entries {
		if e.IsDir() || !slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) {
			continue
		}
		if len(out)+len(errs) == maxConfigs {
			return out, append(errs, fmt.Errorf("%s has more than %d CNI configurations: the rest is ignored", dir, maxConfigs))
		}
		file := filepath.Join(dir, e.Name())
		n, err := read(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("CNI configuration %s: %w: correct or remove the file, then restart the agent", file, err))
			continue
		}
		out = append(out, n)
	}
	return out, errs
}

// Find returns the network with the name: that of the first file which has it.
func Find(dir, name string) (Network, error) {
	all, errs := Networks(dir)
	for _, n := range all {
		if n.Name == name {
			return n, nil
		}
	}
	return Network{}, errors.Join(append([]error{fmt.Errorf("network %q in %s: %w: add a file with it, or change mode of the network block",
		name, dir, ErrUnknownNetwork)}, errs...)...)
}

// read reads a configuration of one plugin, or a list of plugins.
func read(file string) (Network, error) {
	raw, err := readFile(file)
	if err != nil {
		return Network{}, err
	}
	if raw, err = asList(raw); err != nil {
		return Network{}, err
	}
	list, err := libcni.NetworkConfFromBytes(raw)
	if err != nil {
		return Network{}, err
	}
	if bad := utils.ValidateNetworkName(list.Name); bad != nil {
		return Network{}, bad
	}
	if len(list.Plugins) == 0 {
		return Network{}, errors.New("it has no plugins")
	}
	return Network{Name: list.Name, File: file, List: list}, nil
}

func readFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, fmt.Errorf("not a regular file of at most %d bytes", maxConfig)
	}
	if worldWritable(info) {
		return nil, errors.New("every user can write it: run chmod o-w")
	}
	return os.ReadFile(file)
}

// asList returns a list of plugins. A configuration without one is that of a single plugin, whatever
// the name of its file.
func asList(raw []byte) ([]byte, error) {
	var head struct {
		Name       string            `json:"name"`
		CNIVersion string            `json:"cniVersion,omitempty"`
		Plugins    []json.RawMessage `json:"plugins"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	if head.Plugins != nil {
		return raw, nil
	}
	head.Plugins = []json.RawMessage{raw}
	return json.Marshal(head)
}

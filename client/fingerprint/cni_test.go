package fingerprint_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/netns"
)

func TestNetworksOfGroups(t *testing.T) {
	if !netns.Possible() {
		t.Skip("needs root")
	}
	root, configs, plugins := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(configs, "10-a.conf"), `{"name": "storage", "type": "macvlan"}`, 0o600)
	write(filepath.Join(configs, "20-b.conf"), `rubbish`, 0o600)
	write(filepath.Join(plugins, "bridge"), "#!/bin/sh\necho 'CNI bridge plugin v1.6.2'\n", 0o700)
	var isolation error
	host := func() fingerprint.Facts {
		return fingerprint.NewHost(root, fingerprint.Config{Allow: []string{"bridge", "cni", "plugins_cni"},
			Networks: fingerprint.Networks{PluginDirs: []string{plugins}, ConfigDir: configs, Bridge: "nomad", Hairpin: true,
				Isolation: func() error { return isolation }}}).Run(context.Background(), slog.New(slog.DiscardHandler))
	}
	modes := func(f fingerprint.Facts) (out []string) {
		for _, n := range f.NodeNetworks {
			out = append(out, n.Mode+" "+n.Device)
		}
		return out
	}
	f := host()
	if got := strings.Join(modes(f), ","); got != "cni/storage " {
		t.Errorf("modes without the kernel module = %q", got)
	}
	if f.Attributes["plugins.cni.version.bridge"] != "1.6.2" || !strings.Contains(f.Attributes["network.cni.error"], "20-b.conf") ||
		f.Attributes["nomad.bridge.isolation"] != "" {
		t.Errorf("attributes = %v", f.Attributes)
	}
	write(filepath.Join(root, "proc/modules"), "llc 16384 1 bridge, Live 0x0\nbridge 400000 0 - Live 0x0\n", 0o600)
	f = host()
	if got := strings.Join(modes(f), ","); got != "bridge nomad,cni/storage " || len(f.Networks) != 2 {
		t.Errorf("modes = %q", got)
	}
	if f.Attributes["nomad.bridge.hairpin_mode"] != "true" || f.Attributes["nomad.bridge.isolation"] != "true" {
		t.Errorf("attributes = %v", f.Attributes)
	}
	isolation = errors.New("no nftables")
	if f = host(); f.Attributes["nomad.bridge.isolation"] != "false" || len(f.Networks) != 2 {
		t.Errorf("without nftables: attributes = %v, networks = %v", f.Attributes, f.Networks)
	}
}

// Refresh finds new CNI networks and the loss of old ones. It keeps the results of the other fingerprinters.
func TestAgain(t *testing.T) {
	configs := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(configs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := fingerprint.Config{Allow: []string{"arch", "cni", "network"}, Interface: "lo", Networks: fingerprint.Networks{ConfigDir: configs}}
	write("10-a.conf", `{"name": "old", "type": "macvlan"}`)
	write("20-b.conf", `rubbish`)
	h, quiet := fingerprint.NewHost("/", cfg), slog.New(slog.DiscardHandler)
	first := h.Run(t.Context(), quiet)
	if first.Attributes["network.cni.error"] == "" {
		t.Errorf("attributes = %v, want the error of 20-b.conf", first.Attributes)
	}
	if err := os.Remove(filepath.Join(configs, "10-a.conf")); err != nil {
		t.Fatal(err)
	}
	write("20-b.conf", `{"name": "new", "type": "macvlan"}`)
	again := h.Refresh(t.Context(), quiet)
	var modes []string
	for _, n := range again.Networks {
		modes = append(modes, n.Mode)
	}
	if !slices.Contains(modes, "cni/new") || slices.Contains(modes, "cni/old") || !slices.Contains(modes, "host") {
		t.Errorf("modes = %q, want those of host and cni/new", modes)
	}
	if again.Attributes["network.cni.error"] != "" || again.Attributes["cpu.arch"] != first.Attributes["cpu.arch"] {
		t.Errorf("attributes = %v, want no error and those of the first run", again.Attributes)
	}
}

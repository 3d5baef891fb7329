package killed_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// gate holds the plugins of a node at a point of their work. A point is armed for one call.
//
//	<dir>/gate/arm-<point>   has the number of the arming; the plugin that takes it is held
//	<dir>/gate/at-<number>   has the process ID of the plugin's parent
//	<dir>/gate/go-<number>   releases the plugin
type gate struct {
	*fleet
	dir  string
	last int
}

// script begins each plugin.
const script = `#!/bin/sh
gate() {
	mv "%[1]s/arm-$1" "%[1]s/taken-$$" 2>/dev/null || return 0
	number=$(cat "%[1]s/taken-$$")
	echo $PPID >"%[1]s/new-$number" && mv "%[1]s/new-$number" "%[1]s/at-$number"
	until [ -e "%[1]s/go-$number" ]; do sleep 0.02; done
}
`

func newGate(f *fleet, dir string) *gate {
	f.t.Helper()
	g := &gate{fleet: f, dir: dir}
	for _, d := range []string{g.path(""), g.networkPlugins(), g.volumePlugins()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
	return g
}

func (g *gate) path(name string) string { return filepath.Join(g.dir, "gate", name) }

func (g *gate) networkPlugins() string { return filepath.Join(g.dir, "cni") }

func (g *gate) volumePlugins() string { return filepath.Join(g.dir, "volume-plugins") }

// pluginOrder lists the plugins of the bridge in the order of their work. The bridge calls host-local.
var pluginOrder = []string{"loopback", "bridge", "host-local", "firewall", "portmap"}

// wrapNetwork creates a script for each CNI plugin.
func (g *gate) wrapNetwork(real string) {
	for _, name := range pluginOrder {
		g.executable(filepath.Join(g.networkPlugins(), name), fmt.Sprintf("gate $CNI_COMMAND-%[1]s-before\n%[2]s/%[1]s\ncode=$?\n"+
			"gate $CNI_COMMAND-%[1]s-after\nexit $code\n", name, real))
	}
}

// volumePlugin is the ID of the plugin that addVolumePlugin creates.
const volumePlugin = "gated"

// addVolumePlugin creates a host volume plugin.
func (g *gate) addVolumePlugin() {
	g.executable(filepath.Join(g.volumePlugins(), volumePlugin), `
case "$1" in
fingerprint) echo '{"version": "1.0.0"}' ;;
create)
	gate create-before
	mkdir -p "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID" && chmod 777 "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID" || exit 1
	gate create-after
	echo "{\"path\": \"$DHV_VOLUMES_DIR/$DHV_VOLUME_ID\", \"bytes\": 0}" ;;
delete)
	gate delete-before
	rm -rf "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID"
	gate delete-after ;;
esac
`)
}

func (g *gate) executable(path, text string) {
	if err := os.WriteFile(path, []byte(fmt.Sprintf(script, g.path(""))+text), 0o755); err != nil {
		g.t.Fatal(err)
	}
}

// arm holds the next plugin that comes to the point.
func (g *gate) arm(point string) {
	g.t.Helper()
	g.last++
	number := strconv.Itoa(g.last)
	err := errors.Join(os.WriteFile(g.path("new"), []byte(number), 0o600), os.Rename(g.path("new"), g.path("arm-"+point)))
	if err != nil {
		g.t.Fatal(err)
	}
}

// reached waits until a plugin is held, and returns the process ID of its parent.
func (g *gate) reached() int {
	g.t.Helper()
	var parent int
	testpace.Succeeds(g.t, "a plugin is held", func() error {
		text, err := os.ReadFile(g.path("at-" + strconv.Itoa(g.last)))
		if err == nil {
			parent, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	})
	return parent
}

// release releases the plugin that is held, if it still exists.
func (g *gate) release() {
	g.t.Helper()
	if err := os.WriteFile(g.path("go-"+strconv.Itoa(g.last)), nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

package cni_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/cni"
)

func write(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNetworks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "30-list.conflist", `{"cniVersion": "1.0.0", "name": "list", "plugins": [{"type": "bridge"}, {"type": "portmap"}]}`, 0o600)
	write(t, dir, "10-one.conf", `{"cniVersion": "0.4.0", "name": "one", "type": "macvlan"}`, 0o600)
	write(t, dir, "20-second.json", `{"name": "one", "type": "other"}`, 0o600)
	write(t, dir, "40-ignored.txt", `{`, 0o600)
	for name, text := range map[string]string{"50-rubbish.conf": "rubbish", "51-no-name.conf": `{"type": "bridge"}`,
		"52-no-type.conf":   `{"name": "x"}`,
		"53-empty.conflist": `{"name": "x", "plugins": []}`, "54-name.conf": `{"name": "../x", "type": "bridge"}`} {
		write(t, dir, name, text, 0o600)
	}
	all, errs := cni.Networks(dir)
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	if want := []string{"one", "one", "list"}; !slices.Equal(names, want) {
		t.Errorf("networks = %v, want %v", names, want)
	}
	if len(errs) != 5 {
		t.Errorf("errors = %v, want 5", errs)
	}
	for _, err := range errs {
		if !strings.Contains(err.Error(), filepath.Join(dir, "5")) || !strings.Contains(err.Error(), "correct or remove the file") {
			t.Errorf("error %q names neither file nor remedy", err)
		}
	}
	if n, err := cni.Find(dir, "one"); err != nil || n.List.Plugins[0].Network.Type != "macvlan" {
		t.Errorf("Find(one) = %+v, %v, want the first file", n, err)
	}
	if _, err := cni.Find(dir, "none"); !errors.Is(err, cni.ErrUnknownNetwork) || !strings.Contains(err.Error(), `network "none" in `+dir) ||
		!strings.Contains(err.Error(), "change mode of the network block") {
		t.Errorf("Find(none) = %v", err)
	}
	if all, errs := cni.Networks(filepath.Join(dir, "absent")); all != nil || errs != nil {
		t.Errorf("Networks() of no directory = %v, %v", all, errs)
	}
}

// Plugins that hang, fail, or print rubbish.
func TestExec(t *testing.T) {
	t.Setenv("AGENT_SECRET", "canary")
	dir := t.TempDir()
	for name, c := range map[string]struct{ script, want string }{
		"hangs":   {"sleep 1000", `CNI plugin "hangs" did not end in time and was killed: correct its configuration, or replace ` + dir},
		"rubbish": {"echo rubbish", `CNI plugin "rubbish" printed "rubbish\n", which is not JSON: replace ` + dir},
		"fails":   {"echo broken >&2; exit 1", `it printed "broken"`},
		"error":   {`echo '{"code": 7, "msg": "no address"}'; exit 1`, "no address"},
		"endless": {"yes", ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, dir, name, "#!/bin/sh\n"+c.script+"\n", 0o700)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if out, err := (&cni.Exec{}).ExecPlugin(ctx, path, nil, os.Environ()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("ExecPlugin() = %d bytes, %v, want %q", len(out), err, c.want)
			}
		})
	}
	path := write(t, dir, "env", "#!/bin/sh\nprintf '\"%s\"' \"$(env | tr '\\n' ' '; cat)\"\n", 0o700)
	out, err := (&cni.Exec{}).ExecPlugin(t.Context(), path, []byte("input"), append(os.Environ(), "CNI_COMMAND=ADD"))
	if err != nil || strings.Contains(string(out), "canary") || !strings.Contains(string(out), "CNI_COMMAND=ADD") ||
		!strings.HasSuffix(string(out), `input"`) {
		t.Errorf("the plugin got %q, %v", out, err)
	}
}

func TestVersions(t *testing.T) {
	dir, second := t.TempDir(), t.TempDir()
	const supported = "CNI protocol versions supported: 0.1.0, 0.4.0, 1.0.0"
	write(t, dir, "released", "#!/bin/sh\necho 'CNI released plugin v1.4.1' >&2; echo '"+supported+"' >&2\n", 0o700)
	write(t, dir, "debian", "#!/bin/sh\necho 'CNI debian plugin version unknown'; echo '"+supported+"'\n", 0o700)
	write(t, dir, "rubbish", "#!/bin/sh\nhead -c 100000 /dev/urandom; exit 1\n", 0o700)
	write(t, dir, "hangs", "#!/bin/sh\nsleep 1000\n", 0o700)
	write(t, dir, "text", "v9.9.9", 0o600)
	write(t, second, "released", "#!/bin/sh\necho v0.0.1\n", 0o700)
	got, err := cni.Versions(t.Context(), []string{dir, second, filepath.Join(dir, "absent")})
	if want := "map[debian:1.0.0 released:1.4.1]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("Versions() = %v, %v, want %v", got, err, want)
	}
}

// Many plugins that hang hide no plugin of the bridge.
func TestVersionsBesideHangingPlugins(t *testing.T) {
	dir := t.TempDir()
	for i := range 16 {
		write(t, dir, fmt.Sprintf("a%02d", i), "#!/bin/sh\nsleep 1000\n", 0o700)
	}
	for _, name := range []string{"portmap", "bridge"} {
		write(t, dir, name, "#!/bin/sh\necho v1.4.1\n", 0o700)
	}
	got, err := cni.Versions(t.Context(), []string{dir})
	if want := "map[bridge:1.4.1 portmap:1.4.1]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("Versions() = %v, %v, want %v", got, err, want)
	}
}

func TestPluginDirs(t *testing.T) {
	for _, c := range []struct{ configured, env, want string }{
		{"/a:/b", "/c", "[/a /b]"}, {"", "/c:", "[/c]"}, {"", "", "[/opt/cni/bin /usr/libexec/cni /usr/lib/cni]"},
	} {
		if got := fmt.Sprint(cni.PluginDirs(c.configured, c.env)); got != c.want {
			t.Errorf("PluginDirs(%q, %q) = %s, want %s", c.configured, c.env, got, c.want)
		}
	}
}

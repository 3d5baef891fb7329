package agent_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// pluginDir returns a plugin_dir with a script that does not speak the protocol of plugins.
func pluginDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plugins")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBadPlugin checks that a program that cannot be used is an unhealthy driver, and that the node
// works.
func TestBadPlugin(t *testing.T) {
	a, _ := run(t, "-dev", "-config", write(t, free+fmt.Sprintf("plugin_dir = %q\nplugin \"bad\" { }\n", pluginDir(t))))
	testpace.Until(t, "the driver's reason in the node", func() bool {
		var nodes []struct{ ID, Status string }
		var n struct {
			Drivers map[string]*struct {
				Healthy           bool
				HealthDescription string
			}
		}
		if get(a, "/v1/nodes", &nodes) != nil || len(nodes) != 1 || nodes[0].Status != "ready" || get(a, "/v1/node/"+nodes[0].ID, &n) != nil {
			return false
		}
		bad, mock := n.Drivers["bad"], n.Drivers["mock_driver"]
		return bad != nil && !bad.Healthy && strings.Contains(bad.HealthDescription, `bad sent no handshake, but "hello"`) && mock != nil &&
			mock.Healthy
	})
}

// TestPluginFaults checks what stops the agent.
func TestPluginFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		block string
		want  string
	}{
		"writable directory": {func(dir string) error { return os.Chmod(dir, 0o777) }, `plugin "bad" { }`,
			"has mode 0777: only its owner may write to it"},
		"unknown backend": {func(string) error { return nil }, "plugin \"x\" {\n backend = \"bad\"\n}", `plugin.x: unknown driver "bad"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := pluginDir(t)
			if err := tc.spoil(dir); err != nil {
				t.Fatal(err)
			}
			_, err := build(t, io.Discard, "-dev", "-config", write(t, free+fmt.Sprintf("plugin_dir = %q\n%s\n", dir, tc.block)))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New() = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

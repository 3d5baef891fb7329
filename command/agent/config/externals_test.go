package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExternals checks which plugin blocks are those of programs in plugin_dir.
func TestExternals(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"podman", "exec2"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	in := fmt.Sprintf("plugin_dir = %q\n", dir) + withClient
	for name, tc := range map[string]struct {
		text string
		want []string
		err  string
	}{
		"nothing":          {in, nil, ""},
		"a program":        {in + "plugin \"podman\" {\n args = [\"-x\"]\n config { anything = 1 }\n}\n", []string{"podman"}, ""},
		"another instance": {in + "plugin \"podman\" { }\nplugin \"second\" { backend = \"podman\" }\n", []string{"podman", "second"}, ""},
		"built in":         {in + "plugin \"exec2\" { }\n", nil, ""},
		"no such file":     {in + "plugin \"other\" { }\n", nil, ""},
		"no plugin_dir":    {withClient + "plugin \"podman\" { }\n", nil, ""},
		"unknown backend":  {withClient + "plugin \"podman\" { backend = \"pod\" }\n", nil, `plugin.podman.backend: unknown driver "pod"`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := load(t, map[string]string{"a.hcl": tc.text})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("load() = %v, want an error with %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := s.Externals()
			if absent := s.AbsentPlugins(); (len(absent) == 1) != strings.HasPrefix(name, "no ") {
				t.Errorf("AbsentPlugins() = %q", absent)
			}
			if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, tc.want) {
				t.Errorf("Externals() = %q, want %q", names, tc.want)
			}
			if p := got["podman"]; name == "a program" && (p.Args[0] != "-x" || p.Config["anything"] == nil) {
				t.Errorf("block = %+v", p)
			}
		})
	}
	if _, err := load(t, map[string]string{"a.hcl": withClient + "client { client_min_port = 20\n client_max_port = 10 }\n"}); err == nil ||
		!strings.Contains(err.Error(), "20 to 10") {
		t.Errorf("a range of ports that is empty: %v", err)
	}
	s, err := load(t, map[string]string{"a.hcl": withClient})
	if err != nil || s.PluginDir("/data") != "/data/plugins" || s.PluginDir("") != "" {
		t.Errorf("PluginDir() = %q, %q, %v", s.PluginDir("/data"), s.PluginDir(""), err)
	}
}

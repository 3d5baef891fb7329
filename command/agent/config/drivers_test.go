package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// withClient is the minimal configuration of a client.
const withClient = minimal + "client { enabled = true }\n"

// driverConfig returns the configuration of an instance of a driver.
func driverConfig(s *Settings, name string) map[string]any {
	for _, i := range s.Drivers() {
		if i.Name == name {
			return i.Config
		}
	}
	return nil
}

// TestDrivers checks the instances that a configuration gives.
func TestDrivers(t *testing.T) {
	open := "plugin \"exec2-open\" {\n backend = \"exec2\"\n config { unveil_by_task = true }\n}\n"
	for name, tc := range map[string]struct {
		files map[string]string
		args  []string
		want  []string
	}{
		"no block": {map[string]string{"a.hcl": withClient}, nil,
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"dev": {nil, []string{"-dev"},
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "mock_driver=mock_driver", "qemu=qemu", "raw_exec=raw_exec"}},
		"instance": {map[string]string{"a.hcl": withClient + open}, nil,
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "exec2-open=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"JSON": {map[string]string{"a.hcl": withClient, "b.json": `{"plugin": {"x": {"backend": "raw_exec"}}}`}, nil,
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec", "x=raw_exec"}},
		"two files": {map[string]string{"a.hcl": withClient + open, "b.hcl": "plugin \"exec2-open\" {\n config { pids_limit = 7 }\n}"}, nil,
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "exec2-open=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"denied": {map[string]string{"a.hcl": withClient + open + `client { options = { "driver.denylist" = "exec2" } }`}, nil,
			[]string{"docker=docker", "exec=exec", "exec2-open=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"allowed": {map[string]string{"a.hcl": withClient + open + `client { options = { "driver.allowlist" = "exec2-open" } }`}, nil,
			[]string{"exec2-open=exec2"}},
		"of a server": {map[string]string{"a.hcl": minimal + "plugin \"podman\" {}\n"}, nil,
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"docker, twice": {map[string]string{"a.hcl": withClient +
			"plugin \"docker\" {\n config {\n allow_privileged = false\n volumes { enabled = false }\n }\n}\n" +
			"plugin \"docker-privileged\" {\n backend = \"docker\"\n config {\n allow_privileged = true\n volumes { enabled = true }\n }\n}\n"}, nil,
			[]string{"docker=docker", "docker-privileged=docker", "exec=exec", "exec2=exec2", "java=java", "qemu=qemu", "raw_exec=raw_exec"}},
		"mock, by name": {map[string]string{"a.hcl": withClient + "plugin \"m\" { backend = \"mock_driver\" }\n"}, nil,
			[]string{"docker=docker", "exec=exec", "exec2=exec2", "java=java", "m=mock_driver", "qemu=qemu", "raw_exec=raw_exec"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := load(t, tc.files, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range s.Drivers() {
				got = append(got, i.Name+"="+i.Kind.Name)
				if s.backends()[i.Name] != i.Kind.Name {
					t.Errorf("backends() = %v", s.backends())
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("Drivers() = %q, want %q", got, tc.want)
			}
			if name == "two files" && !reflect.DeepEqual(driverConfig(s, "exec2-open"),
				map[string]any{"unveil_by_task": true, "pids_limit": int64(7)}) {
				t.Errorf("config = %v, want that of both files", driverConfig(s, "exec2-open"))
			}
		})
	}
}

// TestDevPrivilege checks that tasks of raw_exec and docker need no privileged = true with -dev, whatever the name
// of the instance, unless the configuration says otherwise.
func TestDevPrivilege(t *testing.T) {
	block := func(label, config string) string {
		return fmt.Sprintf("plugin %q {\n backend = \"raw_exec\"\n config {\n %s\n }\n}\n", label, config)
	}
	for name, tc := range map[string]struct {
		text string
		args []string
		want map[string]any // the option, by instance
	}{
		"dev":           {"", []string{"-dev"}, map[string]any{"raw_exec": true, "docker": true}},
		"dev, enabled":  {block("raw_exec", "enabled = true"), []string{"-dev"}, map[string]any{"raw_exec": true}},
		"dev, off":      {block("raw_exec", "legacy_privileged_behavior = false"), []string{"-dev"}, map[string]any{"raw_exec": false}},
		"dev, instance": {block("raw-2", "enabled = true"), []string{"-dev"}, map[string]any{"raw_exec": true, "raw-2": true}},
		"dev, docker off": {"plugin \"docker\" {\n config {\n legacy_privileged_behavior = false\n }\n}\n", []string{"-dev"},
			map[string]any{"raw_exec": true, "docker": false}},
		"not dev":         {withClient + block("raw_exec", "enabled = true"), nil, map[string]any{"raw_exec": nil, "docker": nil}},
		"not dev, option": {withClient + block("raw_exec", "legacy_privileged_behavior = true"), nil, map[string]any{"raw_exec": true}},
	} {
		s, err := load(t, map[string]string{"a.hcl": tc.text}, tc.args...)
		if err != nil {
			t.Fatal(err)
		}
		for driver, want := range tc.want {
			if got := driverConfig(s, driver)["legacy_privileged_behavior"]; got != want {
				t.Errorf("%s: option of %s is %v, want %v", name, driver, got, want)
			}
		}
		if got := driverConfig(s, "exec2"); len(got) > 0 {
			t.Errorf("%s: config of exec2 is %v", name, got)
		}
	}
}

// TestPluginFaults checks that an error names the file, the line, the block and the mend.
func TestPluginFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"unknown backend": {map[string]string{"a.hcl": withClient + "plugin \"open\" {\n  backend = \"exec9\"\n}\n"},
			`a.hcl:6: plugin.open.backend: unknown driver "exec9": set backend to one of docker, exec, exec2, java, mock_driver, qemu, raw_exec`},
		"a path": {map[string]string{"a.hcl": withClient + "plugin \"../x\" { backend = \"exec2\" }\n"},
			`a.hcl:5: plugin.../x: the label is not a name: use 1 to 64 letters, digits, - and _`},
		"refused config": {map[string]string{"a.hcl": withClient +
			"plugin \"open\" {\n  backend = \"exec2\"\n  config { unveil = true }\n}\n"},
			`a.hcl:7: plugin.open.config: config of driver exec2: unknown argument "unveil" in config; expected one of: allow_root`},
		"name of a driver": {map[string]string{"a.hcl": withClient + "plugin \"raw_exec\" {\n  backend = \"exec2\"\n}\n"},
			`a.hcl:6: plugin.raw_exec.backend: "raw_exec" is the name of the driver raw_exec: choose another label`},
		"one label twice": {map[string]string{"a.hcl": withClient +
			"plugin \"x\" { backend = \"exec2\" }\nplugin \"x\" { backend = \"raw_exec\" }\n"},
			`a.hcl:6,8: plugin.x: duplicate block, first at line 5: rename one, or merge them`},
		"twice, in JSON": {map[string]string{"a.hcl": withClient,
			"b.json": "{\"plugin\": [{\"x\": {\"backend\": \"exec2\"}},\n{\"x\": {\"backend\": \"exec2\"}}]}"},
			`b.json:2,2: plugin.x: duplicate block, first at line 1`},
		"both names": {map[string]string{"a.hcl": withClient + "plugin \"exec2\" {}\nplugin \"nomad-driver-exec2\" {}\n"},
			`a.hcl:6: plugin.nomad-driver-exec2: plugin "exec2" configures the same driver: keep one block`},
		"two backends": {map[string]string{"a.hcl": withClient + "plugin \"x\" { backend = \"exec2\" }\n",
			"b.hcl": "plugin \"x\" {\n  backend = \"raw_exec\"\n}\n"},
			`b.hcl:2: plugin.x.backend: an earlier file sets the backend "exec2" for this label: rename one of the blocks`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tc.files)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse() = %v\nwant %q in it", err, tc.want)
			}
		})
	}
}

// TestSameFileTwice checks that a file may be given twice: each time it is read anew.
func TestSameFileTwice(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.hcl")
	if err := os.WriteFile(file, []byte(withClient+"plugin \"x\" { backend = \"exec2\" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse([]string{"-config", file, "-config", file}); err != nil {
		t.Errorf("Parse() = %v", err)
	}
}

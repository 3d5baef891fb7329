package config

import (
	"slices"
	"strings"
	"testing"
)

// A task names only loggers that the plugin block lists. The logger of the plugin block itself needs no entry.
func TestLogger(t *testing.T) {
	files := Logging{"json-file", map[string]string{"max-size": "1m"}}
	for name, c := range map[string]struct {
		set  Plugin
		task Logging
		want string // "" if it is refused
	}{
		"none given": {Plugin{loggers: []string{"local"}, logging: Logging{Driver: "syslog"}}, Logging{}, "syslog"},
		"listed": {Plugin{loggers: []string{"journald"}, logging: files},
			Logging{Driver: "journald", Options: map[string]string{"tag": "x"}}, "journald"},
		"not listed": {Plugin{loggers: []string{"journald"}, logging: files}, Logging{Driver: "json-file"}, ""},
		"config only": {Plugin{loggers: []string{"json-file"}, logging: files}, Logging{Options: map[string]string{"max-file": "3"}},
			"json-file"},
		"config of others": {Plugin{loggers: []string{"json-file"}, logging: files},
			Logging{Options: map[string]string{"gelf-address": "udp://x:1"}}, ""},
		"node's, with config of the task": {Plugin{loggers: []string{"json-file"}, logging: Logging{Driver: "syslog"}},
			Logging{Options: map[string]string{"syslog-address": "unix:///x"}}, ""},
		"no type at all": {Plugin{loggers: []string{"json-file"}, logging: Logging{Options: map[string]string{"max-size": "1m"}}},
			Logging{Options: map[string]string{"max-size": "2m"}}, "json-file"},
		"option of another": {Plugin{loggers: []string{"local"}, logging: files},
			Logging{Driver: "local", Options: map[string]string{"tag": "x"}}, ""},
		"none with options": {Plugin{loggers: []string{"none"}, logging: files},
			Logging{Driver: "none", Options: map[string]string{"tag": "x"}}, ""},
	} {
		got, err := c.set.Logger(&Task{logging: c.task})
		if (err == nil) != (c.want != "") || err == nil && got.Driver != c.want {
			t.Errorf("%s: logger() = %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

// The daemon reads the values of options of loggers outside of the limits of a task. Each option of loggerOptions has
// values that are refused here, or none that can harm the daemon.
func TestLoggerValues(t *testing.T) {
	harmless := []string{"compress", "env", "env-regex", "labels", "labels-regex", "mode"}
	refused := map[string][]string{
		"tag": {`{{pad "x" 70368744177664 0}}`, `{{ .Name | printf "%999999999s" }}`, `{{range .}}x{{end}}`, "{{.ID", "}}",
			"{{.ExtraAttributes nil}}", "{{.Name}}{{/*", strings.Repeat("x", 257)},
		"max-file":        {"0", "-1", "101", "1000000000", "+3", "1e1", "", "3 "},
		"max-size":        {"1", "1k", "0", "-2", "1e9", "inf", "0x10000000", "", "1 g"},
		"max-buffer-size": {"17m", "100g", "-1", "0", "1e30", ""},
	}
	accepted := map[string][]string{
		"tag": {"", "web", "{{.Name}}/{{.ID}}", "{{ .ImageName }}:{{.FullID}}"}, "max-file": {"1", "10", "100"},
		"max-size": {"-1", "64k", "10m", "2M", "100MB", "1g", "1000000"}, "max-buffer-size": {"1m", "4MB", "65536"},
	}
	for driver, names := range loggerOptions {
		for _, name := range names {
			if (loggerValues[name] == nil) != slices.Contains(harmless, name) {
				t.Errorf("the option %s of %s has no check, and is not listed as harmless", name, driver)
			}
			for want, values := range map[bool][]string{false: refused[name], true: accepted[name]} {
				for _, value := range values {
					o := Task{logging: Logging{driver, map[string]string{name: value}}}
					if err := o.checkLogging(); (err == nil) != want {
						t.Errorf("%s, %s = %q: %v, want accepted %v", driver, name, value, err, want)
					}
				}
			}
		}
	}
	o := Task{logging: Logging{"journald", map[string]string{"tag": refused["tag"][0], "any": "thing"}}}
	if err := o.checkLogging(); err == nil {
		t.Error("a tag with a function is accepted for a logger of the operator's list")
	}
}

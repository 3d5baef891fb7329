package docker

import "testing"

// A task names only loggers that the plugin block lists. The logger of the plugin block itself needs no entry.
func TestLogger(t *testing.T) {
	files := logging{"json-file", map[string]string{"max-size": "1m"}}
	for name, c := range map[string]struct {
		set  settings
		task logging
		want string // "" if it is refused
	}{
		"none given":       {settings{loggers: []string{"local"}, logging: logging{driver: "syslog"}}, logging{}, "syslog"},
		"listed":           {settings{loggers: []string{"journald"}, logging: files}, logging{driver: "journald", options: map[string]string{"tag": "x"}}, "journald"},
		"not listed":       {settings{loggers: []string{"journald"}, logging: files}, logging{driver: "json-file"}, ""},
		"config only":      {settings{loggers: []string{"json-file"}, logging: files}, logging{options: map[string]string{"max-file": "3"}}, "json-file"},
		"config of others": {settings{loggers: []string{"json-file"}, logging: files}, logging{options: map[string]string{"gelf-address": "udp://x:1"}}, ""},
		"node's, with config of the task": {settings{loggers: []string{"json-file"}, logging: logging{driver: "syslog"}},
			logging{options: map[string]string{"syslog-address": "unix:///x"}}, ""},
		"no type at all":    {settings{loggers: []string{"json-file"}, logging: logging{options: map[string]string{"max-size": "1m"}}}, logging{options: map[string]string{"max-size": "2m"}}, "json-file"},
		"option of another": {settings{loggers: []string{"local"}, logging: files}, logging{driver: "local", options: map[string]string{"tag": "x"}}, ""},
		"none with options": {settings{loggers: []string{"none"}, logging: files}, logging{driver: "none", options: map[string]string{"tag": "x"}}, ""},
	} {
		got, err := c.set.logger(&options{logging: c.task})
		if (err == nil) != (c.want != "") || err == nil && got.driver != c.want {
			t.Errorf("%s: logger() = %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

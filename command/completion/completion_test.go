package completion

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/command/term"
)

func TestParameters(t *testing.T) {
	for usage, want := range map[string][]string{
		"<allocation> [task]":          {"allocation", "task", ""},
		"<job>...":                     {"job", "job", "job"},
		"[<server>...]":                {"server", "server", "server"},
		"<job> [<group>] <count>":      {"job", "group", "count", ""},
		"<job | path>":                 {"job | path", ""},
		"[path...]":                    {"path", "path"},
		"<file, name or ->":            {"file, name or -", ""},
		"<service_name> <service_id>":  {"service_name", "service_id"},
		"[config.hcl|config.json]":     {"config.hcl|config.json"},
		"":                             {"", ""},
		"<command> [argument...]":      {"command", "argument", "argument"},
		"<addr> [<addr>...]":           {"addr", "addr", "addr"},
		"<path or @file or -> [value]": {"path or @file or -", "value"},
	} {
		all := parse(usage)
		var got []string
		for i := range want {
			got = append(got, at(all, i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the arguments of %q are %q, want %q", usage, got, want)
		}
	}
}

func TestKinds(t *testing.T) {
	for _, tt := range []struct{ command, kind, want string }{
		{"job run", "path", filesOf}, {"var get", "path", "variable"}, {"var list", "prefix", "variable"},
		{"operator raft info", "data dir", directoriesOf},
		{"job explain", "job | path", "job"}, {"acl policy info", "name", "acl policy"}, {"acl role delete", "acl_role_id", "acl role"},
		{"acl auth-method info", "acl_method_name", "acl auth-method"}, {"acl role info", "role_id or name", "acl role"},
		{"node status", "node", "node"}, {"volume status", "volume", "csi volume"}, {"volume detach", "volume", "csi volume"},
		{"volume snapshot create", "volume", "csi volume"}, {"volume snapshot delete", "plugin", "csi plugin"},
		{"volume snapshot list", "ID", "csi plugin"}, {"plugin status", "plugin", "csi plugin"},
		{"acl token info", "token_accessor_id", "acl token"}, {"acl bootstrap", "path", ""}, {"alloc fs", "path", ""},
	} {
		if got := append(kindsOf(tt.command, tt.kind), "")[0]; got != tt.want {
			t.Errorf("%s: %q completes %q, want %q", tt.command, tt.kind, got, tt.want)
		}
	}
}

// Without an agent nothing is offered, at once.
func TestNoAgent(t *testing.T) {
	t.Setenv("NOMAD_ADDR", "http://127.0.0.1:1")
	c := With(term.Command{Name: "job stop", Args: "<job>...", Setup: func(f *term.Flags) term.Run { f.Bool("purge", false, ""); return nil }})
	if got := c.Predict.Predict(complete.Args{Completed: []string{"-purge"}, Last: ""}); len(got) != 0 {
		t.Errorf("offers without an agent: %q", got)
	}
	t.Setenv("NOMAD_ADDR", "::not an address")
	if got := c.Predict.Predict(complete.Args{Last: "x"}); len(got) != 0 {
		t.Errorf("offers of an invalid address: %q", got)
	}
}

// A name that a shell would split, expand or run is not offered.
func TestPlainNames(t *testing.T) {
	for name, want := range map[string]bool{"web": true, "shop/web-1.2": true, "größe": true, "a b": false, "$(id)": false, "`id`": false,
		"a;b": false,
		"-x":  false, "a\nb": false, "a\x1b[2J": false, "*": false, "~root": false, "a'b": false, "a|b": false, "": false} {
		if got := plain().MatchString(name); got != want {
			t.Errorf("%q is offered: %t, want %t", name, got, want)
		}
	}
}

// Bash inserts an offer as it is. A file whose name a shell would split or run is not offered, so that bash
// completes it itself, with quotation marks.
func TestFilesOfHostileNames(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"web.hcl", "$(touch ran).hcl", "a;touch ran.hcl", "`id`.hcl", "two\nlines.hcl", "a b.hcl", "dir/web.hcl",
		"dir/$(id).hcl", "$(id)/web.hcl"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		usage, last string
		want        []string
	}{
		{"<path>", "", []string{"./", "dir/", "web.hcl"}}, {"<path>", "dir/", []string{"dir/", "dir/web.hcl"}},
		{"<path>", "./w", []string{"./web.hcl"}},
		{"<directory>", "", []string{"./", "dir/"}}, {"<path>", "$", nil}, {"<path>", "a", nil},
	} {
		c := With(term.Command{Name: "config validate", Args: tt.usage, Setup: func(*term.Flags) term.Run { return nil }})
		got := c.Predict.Predict(complete.Args{Last: tt.last})
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s after %q offers %q, want %q", tt.usage, tt.last, got, tt.want)
		}
	}
}

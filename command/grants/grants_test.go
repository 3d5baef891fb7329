package grants

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hclsimple"

	"github.com/open-nomad/open-nomad/internal/denials"
)

func refused(unveil ...string) []denials.Denial {
	var out []denials.Denial
	for _, u := range unveil {
		out = append(out, denials.Denial{Layer: denials.Landlock, Rule: "fs.x", Unveil: u})
	}
	return out
}

func numbered(format string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

func TestUnveil(t *testing.T) {
	for _, tt := range []struct {
		name           string
		had, got, want []string
	}{
		{"one", nil, []string{"r:/etc/passwd"}, []string{"r:/etc/passwd"}},
		{"modes of one path", nil, []string{"w:/a/b", "r:/a/b", "r:/a/b"}, []string{"rw:/a/b"}},
		{"below what is granted", []string{"r:/a"}, []string{"r:/a/b/c", "w:/a/b/d"}, []string{"r:/a", "w:/a/b/d"}},
		{"beside what is granted", []string{"r:/a"}, []string{"r:/ab"}, []string{"r:/a", "r:/ab"}},
		{"more of what is granted", []string{"r:/a"}, []string{"w:/a"}, []string{"rw:/a"}},
		{"files made", nil, []string{"c:/srv/data", "w:/srv/data/x.tmp", "r:/srv/data/x.tmp"}, []string{"rwc:/srv/data"}},
		{"files made in what is granted", []string{"c:/srv"}, []string{"w:/srv/x"}, []string{"wc:/srv"}},
		{"seven files", nil, numbered("r:/usr/share/app/data/%d", 7), numbered("r:/usr/share/app/data/%d", 7)},
		{"eight files", nil, numbered("r:/usr/share/app/data/%d", 8), []string{"r:/usr/share/app/data"}},
		{"eight files of a great directory", nil, numbered("r:/etc/%d", 8), numbered("r:/etc/%d", 8)},
		{"eight files that the job lists", numbered("r:/usr/share/app/data/%d", 8), nil, numbered("r:/usr/share/app/data/%d", 8)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := From(refused(tt.got...), Grants{Unveil: tt.had})
			if !slices.Equal(g.Unveil, tt.want) {
				t.Errorf("got %q, want %q", g.Unveil, tt.want)
			}
			if again := From(refused(tt.got...), g); !again.Equal(g) {
				t.Errorf("the same refusals make %q of %q", again.Unveil, g.Unveil)
			}
		})
	}
}

func TestPortsAndOthers(t *testing.T) {
	list := []denials.Denial{
		{Layer: denials.Landlock, Rule: "net.connect_tcp", Port: 443},
		{Layer: denials.Landlock, Rule: "net.connect_tcp", Port: 80},
		{Layer: denials.Landlock, Rule: "net.bind_tcp", Port: 8080},
		{Layer: denials.Seccomp, Rule: "bpf", Hint: "h"},
		{Layer: denials.Seccomp, Rule: "bpf", Hint: "h"},
		{Layer: denials.Landlock, Rule: "fs.read_file", Path: "/proc/17/maps", Hint: "h"},
	}
	g := From(list, Grants{Connect: []int{443}})
	if !slices.Equal(g.Bind, []int{8080}) || !slices.Equal(g.Connect, []int{80, 443}) || len(g.Other) != 2 {
		t.Errorf("got %+v", g)
	}
}

// TestHCL parses the output: a path from a task must not become a template.
func TestHCL(t *testing.T) {
	hostile := []string{`r:/a "b"`, "r:/${env.SECRET}", "r:/%{ if true }", `r:/back\slash`, "r:/ü"}
	g := Grants{Unveil: hostile, Bind: []int{80}, Connect: []int{1, 2}}
	var read struct {
		Config struct {
			Unveil  []string `hcl:"unveil"`
			Network struct {
				Bind    []int `hcl:"bind"`
				Connect []int `hcl:"connect"`
			} `hcl:"network,block"`
		} `hcl:"config,block"`
	}
	if err := hclsimple.Decode("x.hcl", []byte(g.HCL()), nil, &read); err != nil {
		t.Fatalf("%v in\n%s", err, g.HCL())
	}
	if c := read.Config; !slices.Equal(c.Unveil, hostile) || !slices.Equal(c.Network.Bind, g.Bind) ||
		!slices.Equal(c.Network.Connect, g.Connect) {
		t.Errorf("%+v came back of\n%s", c, g.HCL())
	}
	if strings.Contains((Grants{Unveil: []string{"r:/a"}}).HCL(), "network") {
		t.Error("a network block without ports")
	}
}

// TestForNode checks that the operator's block has the label of the driver's instance.
func TestForNode(t *testing.T) {
	want := "plugin \"exec2-open\" {\n  config {\n    unveil_paths = [\n      \"r:/etc/x\",\n    ]\n  }\n}"
	if got := (Grants{Unveil: []string{"r:/etc/x"}}).ForNode("exec2-open"); got != want {
		t.Errorf("ForNode() = %s, want %s", got, want)
	}
}

// Package grants computes the task options that allow what a sandbox denied: the fewest
// rights, then the fewest entries.
//
//	denials ──▶ modes by path ──▶ a parent directory has the modes: dropped
//	                   ├─ files created in a directory: modes moved to the directory
//	                   └─ many files in one deep directory: the directory
//
// A directory replaces its files in two cases. The task created files in it, whose names can differ
// in the next run. Or many of its files were denied. The package works on values only.
package grants

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/denials"
)

const (
	// many is the number of denied files from which their directory is granted instead.
	many = 8
	// deep is the minimum depth of such a directory, so that /etc and /usr/share are never
	// granted this way.
	deep = 3
)

// Grants are task options.
type Grants struct {
	Unveil  []string         `json:",omitempty"`
	Bind    []int            `json:",omitempty"` // TCP ports
	Connect []int            `json:",omitempty"`
	Other   []denials.Denial `json:",omitempty"` // denials that no option allows
}

// From returns the options that allow all of list, including the options had, with which
// the task ran.
func From(list []denials.Denial, had Grants) Grants {
	out := Grants{Bind: slices.Clone(had.Bind), Connect: slices.Clone(had.Connect)}
	modes := map[string]string{}
	for _, entry := range had.Unveil {
		if m, p, ok := strings.Cut(entry, ":"); ok {
			modes[p] += m
		}
	}
	asked := map[string]string{} // denied modes by path
	for _, d := range list {
		switch m, p, ok := strings.Cut(d.Unveil, ":"); {
		case ok:
			asked[p] += m
		case d.Layer == denials.Landlock && d.Rule == "net.bind_tcp" && d.Port > 0:
			out.Bind = append(out.Bind, d.Port)
		case d.Layer == denials.Landlock && d.Rule == "net.connect_tcp" && d.Port > 0:
			out.Connect = append(out.Connect, d.Port)
		default:
			out.other(d)
		}
	}
	for p, m := range asked {
		modes[p] += m
	}
	fromMade(modes)
	fromMany(modes, asked)
	out.Unveil = entries(modes)
	slices.Sort(out.Bind)
	slices.Sort(out.Connect)
	out.Bind, out.Connect = slices.Compact(out.Bind), slices.Compact(out.Connect)
	return out
}

func (g *Grants) other(d denials.Denial) {
	if !slices.Contains(g.Other, d) {
		g.Other = append(g.Other, d)
	}
}

// fromMade moves the modes of created files to their directory: the files can have other
// names in the next run.
func fromMade(modes map[string]string) {
	for p := range modes {
		dir := path.Dir(p)
		if p != dir && strings.Contains(modes[dir], "c") {
			modes[dir] += modes[p]
			delete(modes, p)
		}
	}
}

// fromMany replaces many files by their directory.
func fromMany(modes, asked map[string]string) {
	type group struct{ dir, modes string }
	files := map[group][]string{}
	for p := range asked {
		if m, ok := modes[p]; ok {
			g := group{path.Dir(p), denials.Modes(m)}
			files[g] = append(files[g], p)
		}
	}
	for g, list := range files {
		if len(list) < many || strings.Count(g.dir, "/") < deep {
			continue
		}
		for _, p := range list {
			delete(modes, p)
		}
		modes[g.dir] += g.modes
	}
}

// entries lists the paths whose modes no parent directory grants.
func entries(modes map[string]string) []string {
	var paths []string
	for p := range modes {
		if modes[p] = denials.Modes(modes[p]); !given(modes, p) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = modes[p] + ":" + p
	}
	return out
}

// given reports whether the parent directories of p together grant its modes.
func given(modes map[string]string, p string) bool {
	above := ""
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if dir != p {
			above += modes[dir]
		}
		if dir == path.Dir(dir) {
			return strings.Trim(modes[p], above) == ""
		}
	}
}

// Empty reports whether nothing is granted.
func (g Grants) Empty() bool { return len(g.Unveil)+len(g.Bind)+len(g.Connect) == 0 }

// Equal reports whether both grant the same.
func (g Grants) Equal(h Grants) bool {
	return slices.Equal(g.Unveil, h.Unveil) && slices.Equal(g.Bind, h.Bind) && slices.Equal(g.Connect, h.Connect)
}

// HCL formats the options for the config block of a task.
func (g Grants) HCL() string {
	var b strings.Builder
	b.WriteString("config {\n")
	paths(&b, "  ", "unveil", g.Unveil)
	if len(g.Bind)+len(g.Connect) > 0 {
		b.WriteString("  network {\n")
		ports(&b, "bind   ", g.Bind)
		ports(&b, "connect", g.Connect)
		b.WriteString("  }\n")
	}
	b.WriteString("}")
	return b.String()
}

// ForNode formats the paths for the plugin block of a driver in the configuration of an agent, where
// they apply to every task of the driver on the node.
func (g Grants) ForNode(driver string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %q {\n  config {\n", driver)
	paths(&b, "    ", "unveil_paths", g.Unveil)
	b.WriteString("  }\n}")
	return b.String()
}

func paths(b *strings.Builder, indent, option string, list []string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "%s%s = [\n", indent, option)
	for _, u := range list {
		fmt.Fprintf(b, "%s  %s,\n", indent, quote(u))
	}
	fmt.Fprintf(b, "%s]\n", indent)
}

func ports(b *strings.Builder, name string, list []int) {
	if len(list) == 0 {
		return
	}
	text := make([]string, len(list))
	for i, p := range list {
		text[i] = strconv.Itoa(p)
	}
	fmt.Fprintf(b, "    %s = [%s]\n", name, strings.Join(text, ", "))
}

// quote returns an HCL string literal. It escapes template sequences by doubling the mark.
func quote(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}

// Package grants turns what a sandbox refused to a task into the smallest options that
// would have allowed it.
//
//	refusals ──▶ modes by path ──▶ below a path that has them: dropped
//	                    ├─ made in a directory: what its files need, it gives
//	                    └─ many files of one deep directory: the directory
//
// Smallest means least, then fewest: a directory is granted in place of its files only
// where the task made files there, whose names nobody knows beforehand, or where so many
// were refused that a list of them says less than their directory. Nothing is granted
// twice, and nothing that a job cannot name. Pure values.
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
	// many files of a directory are granted as the directory.
	many = 8
	// deep is how many directories there must be above such files: /etc and /usr/share
	// are never granted whole by this.
	deep = 3
)

// Grants are options of a task.
type Grants struct {
	Unveil  []string         `json:",omitempty"`
	Bind    []int            `json:",omitempty"` // TCP ports
	Connect []int            `json:",omitempty"`
	Other   []denials.Denial `json:",omitempty"` // what neither of them allows
}

// From returns what allows all of list, and what has been granted already: had is the
// unveil option and the ports that the task was run with.
func From(list []denials.Denial, had Grants) Grants {
	out := Grants{Bind: slices.Clone(had.Bind), Connect: slices.Clone(had.Connect)}
	modes := map[string]string{}
	for _, entry := range had.Unveil {
		if m, p, ok := strings.Cut(entry, ":"); ok {
			modes[p] += m
		}
	}
	asked := map[string]string{} // before anything is made of it
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

// fromMade gives a directory in which the task makes files what those need: next time
// they may have other names.
func fromMade(modes map[string]string) {
	for p := range modes {
		dir := path.Dir(p)
		if p != dir && strings.Contains(modes[dir], "c") {
			modes[dir] += modes[p]
			delete(modes, p)
		}
	}
}

// fromMany puts the directory of many files in their place.
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

// entries lists the paths whose modes no directory above them gives.
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

// given says whether the directories above p, whose rights add up, have its modes.
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

// Empty says whether nothing is granted.
func (g Grants) Empty() bool { return len(g.Unveil)+len(g.Bind)+len(g.Connect) == 0 }

// Equal says whether both grant the same.
func (g Grants) Equal(h Grants) bool {
	return slices.Equal(g.Unveil, h.Unveil) && slices.Equal(g.Bind, h.Bind) && slices.Equal(g.Connect, h.Connect)
}

// HCL prints the options as they stand in a task's config block.
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

// ForNode prints the paths as they stand in the agent's configuration: there they hold
// for every task of the node.
func (g Grants) ForNode() string {
	var b strings.Builder
	b.WriteString("plugin \"exec2\" {\n  config {\n")
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

// quote is a literal of HCL: a path is a template to it unless its marks are doubled.
func quote(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}

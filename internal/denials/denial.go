package denials

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/elastic/go-seccomp-bpf/arch"
)

// The layers that refuse accesses.
const (
	Landlock = "landlock"
	Seccomp  = "seccomp"
)

// Denial is an access that the sandbox of a task refused. It names only the rule and the object,
// never arguments or contents.
type Denial struct {
	Layer string // Landlock or Seccomp
	// Rule is the kernel's name of the missing right ("fs.read_file"), or the system call ("bpf").
	Rule string
	Path string `json:",omitempty"` // file, directory or socket
	Port int    `json:",omitempty"` // TCP port
	// Unveil is the entry of a task's unveil option that would allow the access; empty if no path
	// would.
	Unveil string `json:",omitempty"`
	// Hint describes what would allow the access, if Unveil does not.
	Hint string `json:",omitempty"`
}

// rights are the modes of an unveil entry that grant a file right.
var rights = map[string]string{
	"fs.read_file": "r", "fs.read_dir": "r",
	"fs.execute":    "rx",
	"fs.write_file": "w", "fs.truncate": "w",
	"fs.make_char": "c", "fs.make_dir": "c", "fs.make_reg": "c", "fs.make_sock": "c", "fs.make_fifo": "c",
	"fs.make_block": "c", "fs.make_sym": "c", "fs.remove_dir": "c", "fs.remove_file": "c", "fs.refer": "c",
}

// hints are hints for the other rules.
var hints = map[string]string{
	"fs.change_topology":         "no option allows mounting",
	"fs.ioctl_dev":               "no option allows commands to this device",
	"fs.resolve_unix":            "no option allows connecting to the socket of a program outside",
	"scope.abstract_unix_socket": "no option allows abstract sockets of programs outside: use a socket in a shared directory",
	"scope.signal":               "no option allows signals to programs outside",
	"ptrace":                     "no option allows tracing programs outside",
}

// landlockDenial parses a record of type 1423.
func landlockDenial(r record) (Denial, bool) {
	rules := strings.Split(r.fields["blockers"], ",")
	if rules[0] == "" || len(r.fields["blockers"]) > 512 {
		return Denial{}, false
	}
	d := Denial{Layer: Landlock, Rule: strings.Join(rules, ",")}
	d.Path, _ = r.text("path")
	if strings.HasPrefix(d.Path, "\x00") {
		d.Path = "@" + d.Path[1:]
	}
	for _, key := range []string{"dest", "src"} {
		if port, ok := r.number(key); ok {
			d.Port = port
			break
		}
	}
	switch d.Rule {
	case "net.bind_tcp":
		d.Hint = fmt.Sprintf("network { bind = [%d] } allows it", d.Port)
	case "net.connect_tcp":
		d.Hint = fmt.Sprintf("network { connect = [%d] } allows it", d.Port)
	default:
		d.explain(rules)
	}
	return d, true
}

// explain sets Unveil or Hint.
func (d *Denial) explain(rules []string) {
	var modes string
	for _, rule := range rules {
		if hint := hints[rule]; hint != "" {
			d.Hint = hint
			return
		}
		modes += rights[rule]
	}
	switch {
	case modes == "":
		d.Hint = "no option of this version allows it"
	case perProcess(d.Path):
		d.Hint = fmt.Sprintf("the process number changes; unveil = [%q] allows it, with all of /proc", Modes(modes)+":/proc")
	case !writable(d.Path):
		d.Hint = "the path cannot be written in a job"
	default:
		d.Unveil = Modes(modes) + ":" + d.Path
	}
}

// Modes sorts mode letters and removes duplicates: "xr" + "r" is "rx".
func Modes(s string) string {
	var b strings.Builder
	for _, m := range "rwxc" {
		if strings.ContainsRune(s, m) {
			b.WriteRune(m)
		}
	}
	return b.String()
}

// perProcess reports whether a path is below the /proc directory of one process.
func perProcess(path string) bool {
	rest, ok := strings.CutPrefix(path, "/proc/")
	name, _, _ := strings.Cut(rest, "/")
	_, err := strconv.ParseUint(name, 10, 32)
	return ok && err == nil
}

// Common reports whether the refused file is in /proc or /sys, which many programs read without
// need.
func (d Denial) Common() bool {
	return strings.HasPrefix(d.Path, "/proc/") || strings.HasPrefix(d.Path, "/sys/")
}

// writable reports whether a path can be written in a job: absolute, printable and existing.
func writable(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, " (deleted)") {
		return false
	}
	for _, r := range path {
		if r == '\uFFFD' || !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// seccompDenial parses a record of type 1326.
func seccompDenial(r record) (Denial, bool) {
	nr, ok := r.number("syscall")
	if !ok {
		return Denial{}, false
	}
	d := Denial{Layer: Seccomp, Rule: "system call " + strconv.Itoa(nr)}
	switch info, err := arch.GetInfo(""); {
	case err != nil || r.fields["arch"] != hostArch():
		d.Rule += " of a foreign architecture"
	case info.SyscallNumbers[nr] != "":
		d.Rule = info.SyscallNumbers[nr]
	}
	d.Hint = "a seccomp_profile with it allows it"
	return d, true
}

// hostArch returns this machine's AUDIT_ARCH in the format of records.
func hostArch() string {
	info, err := arch.GetInfo("")
	if err != nil {
		return ""
	}
	return strconv.FormatUint(uint64(info.ID), 16)
}

// String describes the denial and what would allow it.
func (d Denial) String() string { return d.Text("unveil") }

// Text is String with another name for the option that lists paths.
func (d Denial) Text(option string) string {
	var b strings.Builder
	b.WriteString(quoted(d.Rule))
	if d.Path != "" {
		fmt.Fprintf(&b, " %s", quoted(d.Path))
	}
	if d.Port != 0 {
		fmt.Fprintf(&b, " port %d", d.Port)
	}
	if d.Unveil != "" {
		fmt.Fprintf(&b, " (%s = [%q] allows it)", option, d.Unveil)
	} else if d.Hint != "" {
		fmt.Fprintf(&b, " (%s)", d.Hint)
	}
	return b.String()
}

// quoted prevents a path, which a task can choose, from sending terminal control codes.
func quoted(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` {
		return q
	}
	return path
}

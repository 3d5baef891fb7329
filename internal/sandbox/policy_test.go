package sandbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
)

func policy() sandbox.Policy {
	return sandbox.Policy{
		Argv: []string{"/bin/true", "x"}, Env: sandbox.Environment{"TOKEN=secret-canary"}, Dir: "/",
		PrivateIPC: true, PrivatePID: true, NetNS: "/run/netns/x",
		Mounts: &sandbox.Mounts{Proc: true, View: sandbox.View{Dir: "/allocs", Own: "alloc"},
			Binds: []sandbox.Bind{{Source: sandbox.Path{Name: "/srv/data"}, Target: "web/data", Beneath: "/alloc", ReadOnly: true}},
			Tmp:   sandbox.Path{Name: "web/tmp", Beneath: "/alloc"}},
		User: &sandbox.User{UID: 80001, GID: 80001},
		Files: &sandbox.Files{MinABI: landlock.ABIScopes, Paths: []sandbox.Path{
			{Modes: "rwxc", Name: "web/local", Beneath: "/alloc"}, {Modes: "rx", Name: "/usr/bin"}}},
		Rlimits: []sandbox.Rlimit{{Resource: 4}}, Seccomp: sandbox.SeccompDefault, Filter: make([]byte, 16),
	}
}

func TestPolicyPrints(t *testing.T) {
	p := policy()
	const want = `program  ["/bin/true" "x"] in /
env      (1 variables)
private  pid=true ipc=true
network  /run/netns/x
mounts   own, proc=true
  of /allocs only alloc
  /srv/data at /alloc/web/data (ro)
  /alloc/web/tmp at /tmp
user     uid=80001 gid=80001 groups=[]
caps     keep=false, no_new_privs=true
rlimit   4 soft=0 hard=0
landlock ABI >= 6, tcp restricted=false, ioctl restricted=true, signals restricted=true
  rwxc:/alloc/web/local
  rx:/usr/bin
seccomp  default
`
	if got := p.String(); got != want {
		t.Errorf("String() = %s\nwant %s", got, want)
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if got := fmt.Sprintf(verb, p); strings.Contains(got, "canary") {
			t.Errorf("%s prints a secret of the environment", verb)
		}
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		edit func(*sandbox.Policy)
		want string
	}{
		{"complete", func(*sandbox.Policy) {}, ""},
		{"no program", func(p *sandbox.Policy) { p.Argv = nil }, "no program"},
		{"relative directory", func(p *sandbox.Policy) { p.Dir = "tmp" }, "not absolute"},
		{"directory of an unknown", func(p *sandbox.Policy) { p.DirAs = "root" }, "unknown"},
		{"empty profile", func(p *sandbox.Policy) { p.Seccomp = "" }, "seccomp profile has no name"},
		{"named profile", func(p *sandbox.Policy) { p.Seccomp = "web" }, ""},
		{"no filter", func(p *sandbox.Policy) { p.Filter = nil }, "seccomp filter"},
		{"part of a filter", func(p *sandbox.Policy) { p.Filter = p.Filter[:9] }, "seccomp filter"},
		{"too long a filter", func(p *sandbox.Policy) { p.Filter = make([]byte, 8*4097) }, "seccomp filter"},
		{"filter of no profile", func(p *sandbox.Policy) { p.Seccomp = sandbox.SeccompNone }, "takes no filter"},
		{"named profile without filter", func(p *sandbox.Policy) { p.Seccomp, p.Filter = "web", nil }, "seccomp filter of 0 bytes"},
		{"new privileges", func(p *sandbox.Policy) { p.KeepPrivileges = true }, "no_new_privs"},
		{"modes", func(p *sandbox.Policy) { p.Files.Paths[0].Modes = "rq" }, "modes"},
		{"no modes", func(p *sandbox.Policy) { p.Files.Paths[0].Modes = "" }, "modes"},
		{"relative path", func(p *sandbox.Policy) { p.Files.Paths[1].Name = "usr/bin" }, "not absolute"},
		{"leaving path", func(p *sandbox.Policy) { p.Files.Paths[0].Name = "../other" }, "leaves"},
		{"relative network", func(p *sandbox.Policy) { p.NetNS = "x" }, "network namespace"},
		{"host's processes in /proc", func(p *sandbox.Policy) { p.PrivatePID = false }, "needs a PID namespace"},
		{"relative source", func(p *sandbox.Policy) { p.Mounts.Binds[0].Source.Name = "x" }, "not absolute"},
		{"leaving target", func(p *sandbox.Policy) { p.Mounts.Binds[0].Target = "../x" }, "leaves"},
		{"relative tmp", func(p *sandbox.Policy) { p.Mounts.Tmp = sandbox.Path{Name: "x"} }, "not absolute"},
		{"relative view", func(p *sandbox.Policy) { p.Mounts.View.Dir = "allocs" }, "view"},
		{"view of the root", func(p *sandbox.Policy) { p.Mounts.View.Dir = "/" }, "view"},
		{"view of itself", func(p *sandbox.Policy) { p.Mounts.View.Own = "." }, "view"},
		{"leaving view", func(p *sandbox.Policy) { p.Mounts.View.Own = ".." }, "view"},
		{"view of an unclean path", func(p *sandbox.Policy) { p.Mounts.View.Own = "a//b" }, "view"},
		{"view without its own", func(p *sandbox.Policy) { p.Mounts.View.Own = "" }, "view"},
		{"NUL", func(p *sandbox.Policy) { p.Argv[1] = "a\x00b" }, "NUL"},
		{"variable", func(p *sandbox.Policy) { p.Env[0] = "=x" }, "NAME=value"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := policy()
			tt.edit(&p)
			_, err := sandbox.Encode(&p)
			if tt.want == "" {
				if err != nil {
					t.Errorf("Encode() = %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Encode() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestDeclare(t *testing.T) {
	p := policy()
	raw, err := sandbox.Declare(&p)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "canary") {
		t.Error("a declaration holds the environment")
	}
	d, err := sandbox.Declared(raw)
	if err != nil {
		t.Fatal(err)
	}
	b := d.Session([]string{"/bin/sh"}, nil)
	if b.PrivateIPC || b.PrivatePID || b.Mounts != nil || b.NetNS != "" || !d.PrivateIPC || b.User.UID != 80001 || len(b.Files.Paths) != 2 ||
		b.Seccomp != p.Seccomp || len(b.Filter) != 16 {
		t.Errorf("Session() = %+v, want what was declared but the namespaces", b)
	}
}

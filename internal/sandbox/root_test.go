package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// rooted returns the policy of a program whose root is the task's directory, with the host's /usr and /etc.
func (p *places) rooted(t *testing.T) *sandbox.Policy {
	t.Helper()
	if mounts, err := os.ReadFile("/proc/mounts"); err == nil && strings.HasPrefix(string(mounts), "rootfs / rootfs") {
		t.Skip("needs a root directory that pivot_root can replace, not a RAM disk such as that of an emulated kernel")
	}
	m := &sandbox.Mounts{Root: &sandbox.Root{Dir: sandbox.Path{Name: "web", Beneath: p.alloc}}}
	for _, dir := range []string{"/bin", "/lib", "/lib64", "/usr", "/etc"} {
		real, _, err := sandbox.RealPath(dir)
		switch {
		case os.IsNotExist(err):
		case err != nil:
			t.Fatal(err)
		case real != dir:
			m.Root.Links = append(m.Root.Links, sandbox.Link{Name: dir, Target: real})
		default:
			m.Binds = append(m.Binds, sandbox.Bind{Source: sandbox.Path{Name: dir}, Target: dir, ReadOnly: true, HostFiles: true})
		}
	}
	if err := os.Chmod(p.task, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(p.task, 0, 0); err != nil {
		t.Fatal(err)
	}
	q := p.policy(m)
	q.Dir, q.DirAs = "/", sandbox.DirAsUser
	return q
}

// TestRoot checks what a program with a root of its own sees.
func TestRoot(t *testing.T) {
	p := newPlaces(t)
	write(t, filepath.Join(p.task, "own"), "own\n")
	for _, tc := range []struct{ name, script, want string }{
		{"entries", "echo $(ls -A / | grep -v -e ^lib -e ^bin)", "dev etc own proc sys tmp usr\n"},
		{"own files", "cat /own; echo new > /new && cat /new", "own\nnew\n"},
		{"host files", "cat /etc/passwd | head -c 5; echo; echo x 2>/dev/null > /etc/x || echo read-only", "root:\nread-only\n"},
		{"links", "[ -L /bin ] || [ ! -L /bin ]; /bin/true && echo yes", "yes\n"},
		{"devices", "echo $(ls /dev); head -c 4 /dev/zero | od -An -tx1; echo x > /dev/null && echo ok",
			"fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero\n 00 00 00 00\nok\n"},
		{"processes", "[ $(ls -d /proc/[0-9]* | wc -l) -lt 8 ] && echo few", "few\n"},
		{"proc", "head -c 1 /proc/kcore 2>/dev/null | wc -c; cat /proc/keys; echo 1 2>/dev/null > /proc/sys/vm/swappiness || echo ro", "0\nro\n"},
		{"sys", "ls /sys/firmware 2>/dev/null; ls /sys/fs/cgroup; echo x 2>/dev/null > /sys/kernel/mm/x || echo ro", "ro\n"},
		{"mounts", "awk '$2 !~ /^\\/(dev|proc|sys|usr|etc)/ {print $2}' /proc/mounts", "/\n"},
		{"flags", "awk '$2 ~ /^\\/(usr|etc)?$/ {print $4}' /proc/mounts | grep -vc nosuid,nodev", "0\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := runPolicy(t, p.rooted(t), tc.script)
			if got.reason != "" || got.out != tc.want {
				t.Errorf("out = %q, want %q; reason: %s", got.out, tc.want, got.reason)
			}
		})
	}
}

// TestRootHides checks that a hidden directory is not visible through a bind of a directory around it, and that the
// task's directory, which is below it, is.
func TestRootHides(t *testing.T) {
	p := newPlaces(t)
	write(t, filepath.Join(mkdir(t, filepath.Join(p.alloc, "other")), "secret"), "secret")
	write(t, filepath.Join(p.task, "own"), "own\n")
	q := p.rooted(t)
	around := filepath.Dir(p.alloc)
	q.Mounts.Hide = []string{p.alloc}
	q.Mounts.Binds = append(q.Mounts.Binds, sandbox.Bind{Source: sandbox.Path{Name: around}, Target: "/around", ReadOnly: true})
	got := runPolicy(t, q, "cat /own; "+
		"ls -A /around/"+filepath.Base(p.alloc)+" 2>&1; cat /around/*/other/secret 2>/dev/null || echo gone")
	own := strings.HasPrefix(got.out, "own\n") && strings.HasSuffix(got.out, "gone\n")
	if got.reason != "" || !own || strings.Contains(got.out, "other") {
		t.Errorf("out = %q; reason: %s, want only the task's own file", got.out, got.reason)
	}
}

// TestRootLinks checks that links of the task's directory are never followed outside of it, and are not replaced.
func TestRootLinks(t *testing.T) {
	for name, reason := range map[string]string{"usr": "symbolic link", "dev": "symbolic link", "proc": "symbolic link"} {
		t.Run(name, func(t *testing.T) {
			p := newPlaces(t)
			outside := mkdir(t, filepath.Join(p.alloc, "outside"))
			if err := os.Symlink(outside, filepath.Join(p.task, name)); err != nil {
				t.Fatal(err)
			}
			got := runPolicy(t, p.rooted(t), "true")
			if !strings.Contains(got.reason, unix.ELOOP.Error()) {
				t.Errorf("reason = %q, want an error: %s", got.reason, reason)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
				t.Errorf("the directory outside has %v, %v", left, err)
			}
		})
	}
	p := newPlaces(t)
	q := p.rooted(t)
	q.Mounts.Root.Links = append(q.Mounts.Root.Links, sandbox.Link{Name: "/opt/link", Target: "/usr"})
	for range 2 {
		if got := runPolicy(t, q, "ls -d /opt/link/bin"); got.out != "/opt/link/bin\n" {
			t.Errorf("out = %q, reason = %q", got.out, got.reason)
		}
	}
	q.Mounts.Root.Links[len(q.Mounts.Root.Links)-1].Target = "/etc"
	if got := runPolicy(t, q, "true"); !strings.Contains(got.reason, "another file") {
		t.Errorf("reason = %q, want that another file is there", got.reason)
	}
}

// TestRootOwners checks that capabilities give no access to files of the host with another owner, but to those of
// everybody and of the user.
func TestRootOwners(t *testing.T) {
	p := newPlaces(t)
	host := mkdir(t, filepath.Join(p.alloc, "host"))
	for name, owner := range map[string]struct {
		uid, gid int
		mode     os.FileMode
	}{"root": {0, 0, 0o600}, "group": {0, 77777, 0o640}, "user": {88123, 0, 0o600}, "all": {0, 0, 0o644}} {
		file := filepath.Join(host, name)
		write(t, file, name+"\n")
		if err := os.Chown(file, owner.uid, owner.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, owner.mode); err != nil {
			t.Fatal(err)
		}
	}
	p.user = &sandbox.User{UID: 88123, GID: 88123, Groups: []uint32{77777}}
	users, err := sandbox.Owners(p.user)
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	const all = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_FOWNER | 1<<unix.CAP_CHOWN
	script := "cd /host; cat all root group user 2>/dev/null; grep CapEff /proc/self/status"
	for name, want := range map[string]string{
		"":    fmt.Sprintf("all\nroot\ngroup\nuser\nCapEff:\t%016x\n", all),
		"own": fmt.Sprintf("all\ngroup\nuser\nCapEff:\t%016x\n", all),
	} {
		q := p.rooted(t)
		q.User, q.Capabilities = p.user, all
		if name == "own" {
			q.Mounts.Root.Users = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), users.Fd())
		}
		q.Mounts.Binds = append(q.Mounts.Binds,
			sandbox.Bind{Source: sandbox.Path{Name: host}, Target: "/host", ReadOnly: true, HostFiles: true})
		if got := runPolicy(t, q, script); got.out != want || got.reason != "" {
			t.Errorf("users %q: out = %q, want %q; reason: %s", name, got.out, want, got.reason)
		}
	}
}

// TestRootNoDevices checks that a program with every capability for it makes no device that it can open.
func TestRootNoDevices(t *testing.T) {
	p := newPlaces(t)
	q := p.rooted(t)
	q.User, q.Capabilities = &sandbox.User{}, 1<<unix.CAP_MKNOD|1<<unix.CAP_DAC_OVERRIDE
	got := runPolicy(t, q, "for d in / /dev /dev/shm /tmp; do "+
		"mknod $d/n c 1 3 2>/dev/null && echo x 2>/dev/null > $d/n && echo open $d; done; echo end")
	if got.out != "end\n" {
		t.Errorf("out = %q, want no device; reason: %s", got.out, got.reason)
	}
}

func rootPolicy() sandbox.Policy {
	p := policy()
	p.Capabilities = 1 << unix.CAP_CHOWN
	p.Mounts = &sandbox.Mounts{Hide: []string{"/srv/agent"},
		Root: &sandbox.Root{Dir: sandbox.Path{Name: "web", Beneath: "/alloc"}, Links: []sandbox.Link{{Name: "/bin", Target: "/usr/bin"}},
			Users: "/proc/9/fd/3"},
		Binds: []sandbox.Bind{{Source: sandbox.Path{Name: "/usr"}, Target: "/usr", ReadOnly: true, HostFiles: true},
			{Source: sandbox.Path{Name: "/srv/data"}, Target: "/data", Propagation: sandbox.PropagateIn}}}
	return p
}

func TestRootPrints(t *testing.T) {
	p := rootPolicy()
	for _, want := range []string{"  root /alloc/web, with /dev, /proc and /sys; setuid=false devices=false, owners of /proc/9/fd/3\n",
		"  link /bin to /usr/bin\n", "  /usr at /usr (ro, of the host)\n", "  /srv/data at /data (rw, propagated in)\n",
		"caps     keep=false set=0x1, no_new_privs=true\n"} {
		if got := p.String(); !strings.Contains(got, want) {
			t.Errorf("String() = %s\nwant a line %s", got, want)
		}
	}
}

func TestRootValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*sandbox.Policy)
		want string
	}{
		"complete":           {func(*sandbox.Policy) {}, ""},
		"relative root":      {func(p *sandbox.Policy) { p.Mounts.Root.Dir = sandbox.Path{Name: "web"} }, "not absolute"},
		"leaving root":       {func(p *sandbox.Policy) { p.Mounts.Root.Dir.Name = "../web" }, "leaves"},
		"view":               {func(p *sandbox.Policy) { p.Mounts.View = sandbox.View{Dir: "/a", Own: "b"} }, "excludes a view"},
		"proc":               {func(p *sandbox.Policy) { p.Mounts.Proc = true }, "excludes a view"},
		"relative users":     {func(p *sandbox.Policy) { p.Mounts.Root.Users = "x" }, "user namespace"},
		"relative target":    {func(p *sandbox.Policy) { p.Mounts.Binds[1].Target = "data" }, "below the root"},
		"leaving target":     {func(p *sandbox.Policy) { p.Mounts.Binds[1].Target = "/../data" }, "below the root"},
		"target in proc":     {func(p *sandbox.Policy) { p.Mounts.Binds[1].Target = "/proc/sys" }, "below the root"},
		"target of the root": {func(p *sandbox.Policy) { p.Mounts.Binds[1].Target = "/" }, "below the root"},
		"target beneath":     {func(p *sandbox.Policy) { p.Mounts.Binds[1].Beneath = "/alloc" }, "below the root"},
		"link in dev":        {func(p *sandbox.Policy) { p.Mounts.Root.Links[0].Name = "/dev/x" }, "below the root"},
		"propagation":        {func(p *sandbox.Policy) { p.Mounts.Binds[1].Propagation = "shared" }, "unknown"},
		"no root":            {func(p *sandbox.Policy) { p.Mounts.Root = nil }, "for a root only"},
		"capabilities":       {func(p *sandbox.Policy) { p.KeepCapabilities = true }, "set of capabilities"},
		"tracing":            {func(p *sandbox.Policy) { p.Capabilities, p.Files = 1<<unix.CAP_SYS_PTRACE, nil }, "SYS_PTRACE"},
		"nobody's":           {func(p *sandbox.Policy) { p.User = nil }, "set of capabilities"},
	} {
		p := rootPolicy()
		tc.edit(&p)
		_, err := sandbox.Encode(&p)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Encode() = %v, want an error with %q", name, err, tc.want)
		}
	}
}

// TestMakeExecutable checks that a file of the program's user becomes executable, and another does not.
func TestMakeExecutable(t *testing.T) {
	p := newPlaces(t)
	for owner, want := range map[int]bool{88123: true, 0: false} {
		file := filepath.Join(p.task, fmt.Sprint("tool", owner))
		write(t, file, "#!/bin/sh\necho ran\n")
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(file, owner, owner); err != nil {
			t.Fatal(err)
		}
		q := p.rooted(t)
		q.Executable = true
		got := runProgram(t, q, "/"+filepath.Base(file))
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if (got.out == "ran\n") != want || (info.Mode().Perm() == 0o755) != want {
			t.Errorf("owner %d: out = %q, reason = %q, mode = %v", owner, got.out, got.reason, info.Mode())
		}
	}
	q := p.rooted(t)
	q.NotFound = "file x not found"
	if got := runProgram(t, q, "/local/x"); got.reason != "file x not found" {
		t.Errorf("reason = %q", got.reason)
	}
}

package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
)

// spread holds a secret file of the host and a volume with links that lead to it.
type spread struct{ host, canary, volume, at string }

func newSpread(t *testing.T, p *places) spread {
	t.Helper()
	if _, err := landlock.ABI(); err != nil {
		t.Skip(err)
	}
	s := spread{host: filepath.Join(p.alloc, "host"), volume: filepath.Join(p.alloc, "volume"), at: filepath.Join(p.alloc, "at")}
	s.canary = filepath.Join(s.host, "canary")
	if err := errors.Join(os.Mkdir(s.host, 0o755), os.Mkdir(s.volume, 0o755), os.Mkdir(s.at, 0o755),
		os.Mkdir(filepath.Join(s.at, "sub"), 0o755), os.Symlink(s.host, filepath.Join(s.volume, "sub")),
		os.Symlink(s.at, filepath.Join(p.alloc, "host-link"))); err != nil {
		t.Fatal(err)
	}
	write(t, s.canary, "secret of the host")
	write(t, filepath.Join(s.volume, "own"), "the volume's")
	return s
}

// granting returns a policy with the basic grants of a program, and paths.
func (s spread) granting(p *places, m *sandbox.Mounts, paths ...sandbox.Path) *sandbox.Policy {
	pol := p.policy(m)
	paths = append(paths, sandbox.Path{Modes: "rwx", Name: p.task}, sandbox.Path{Modes: "rw", Name: "/dev/null"})
	for _, name := range []string{"/bin", "/usr/bin", "/lib", "/usr/lib", "/lib64", "/etc/ld.so.cache"} {
		if _, err := os.Stat(name); err == nil {
			paths = append(paths, sandbox.Path{Modes: "rx", Name: name})
		}
	}
	pol.Files = &sandbox.Files{Paths: paths}
	return pol
}

// A grant does not pass through a link in a volume, directly or through a link of the host. A link
// of the host into the volume is harmless.
func TestGrantThroughAVolume(t *testing.T) {
	p := newPlaces(t)
	s := newSpread(t, p)
	m := &sandbox.Mounts{Binds: []sandbox.Bind{{Source: sandbox.Path{Name: s.volume}, Target: s.at}}}
	for name, path := range map[string]string{
		"straight": s.at + "/sub", "by a link of the host": filepath.Join(p.alloc, "host-link/sub"),
		"up again": s.at + "/sub/../sub", "not there": s.at + "/nowhere",
	} {
		t.Run(name, func(t *testing.T) {
			got := runPolicy(t, s.granting(p, m, sandbox.Path{Modes: "r", Name: path}, sandbox.Path{Modes: "r", Name: s.at}), "cat "+s.at+
				"/own; cat "+s.canary+" && echo READ")
			if got.reason != "" || !strings.Contains(got.out, "the volume's") || strings.Contains(got.out, "READ") {
				t.Errorf("the program was %q, wrote %q", got.reason, got.out)
			}
		})
	}
	// Without the volume, the same grant is for the host's file.
	own := s.granting(p, &sandbox.Mounts{}, sandbox.Path{Modes: "r", Name: s.host})
	if got := runPolicy(t, own, "cat "+s.canary); !strings.Contains(got.out, "secret of the host") {
		t.Errorf("control: %q, %q", got.reason, got.out)
	}
}

// An optional path is granted if it exists, and omitted if not. A required path that does not exist
// is an error.
func TestOptionalGrant(t *testing.T) {
	p := newPlaces(t)
	s := newSpread(t, p)
	nowhere, link := filepath.Join(s.host, "nowhere"), filepath.Join(s.host, "link")
	if err := os.Symlink(nowhere, link); err != nil {
		t.Fatal(err)
	}
	binds := &sandbox.Mounts{Binds: []sandbox.Bind{{Source: sandbox.Path{Name: s.volume}, Target: s.at}}}
	for what, m := range map[string]*sandbox.Mounts{"own mounts": {}, "a volume": binds} {
		for name, there := range map[string]bool{s.canary: true, nowhere: false, link: false, s.canary + "/below": false, s.at +
			"/sub/nowhere": false} {
			path := sandbox.Path{Modes: "r", Name: name, Optional: true}
			got := runPolicy(t, s.granting(p, m, path), "cat "+s.canary)
			if got.reason != "" || strings.Contains(got.out, "secret of the host") != there {
				t.Errorf("%s: with %s the program was %q, wrote %q", what, path, got.reason, got.out)
			}
			path.Optional = false
			hidden := len(m.Binds) > 0 && strings.HasPrefix(name, s.at)
			if got := runPolicy(t, s.granting(p, m, path), "true"); (got.reason == "") != (there || hidden) {
				t.Errorf("%s: with %s, required, the program was %q", what, path, got.reason)
			}
		}
	}
}

// The same holds for a link in the program's own /tmp, left by an earlier run.
func TestGrantThroughTmp(t *testing.T) {
	p := newPlaces(t)
	s := newSpread(t, p)
	if err := os.Symlink(s.host, filepath.Join(p.tmp, "planted-by-the-task")); err != nil {
		t.Fatal(err)
	}
	m := &sandbox.Mounts{Tmp: sandbox.Path{Name: "web/tmp", Beneath: p.alloc}}
	pol := s.granting(p, m, sandbox.Path{Modes: "r", Name: "/tmp/planted-by-the-task"})
	if got := runPolicy(t, pol, "cat "+s.canary+" && echo READ"); got.reason != "" || strings.Contains(got.out, "READ") {
		t.Errorf("the program was %q, wrote %q", got.reason, got.out)
	}
}

// A session enters existing mounts, with the same care.
func TestGrantInSession(t *testing.T) {
	p := newPlaces(t)
	s := newSpread(t, p)
	m := &sandbox.Mounts{Binds: []sandbox.Bind{{Source: sandbox.Path{Name: s.volume}, Target: s.at}}}
	first := s.granting(p, m, sandbox.Path{Modes: "r", Name: s.at + "/sub"})
	session := first.Session([]string{"/bin/sh"}, nil)
	if len(session.Foreign) != 1 || session.Foreign[0] != s.at {
		t.Fatalf("Foreign = %q", session.Foreign)
	}
	if again := session.Session(nil, nil); len(again.Foreign) != 1 {
		t.Errorf("Foreign of a second session = %q", again.Foreign)
	}
	// As in the session's namespace, the mount exists before the stage starts.
	outer := &sandbox.Policy{Dir: "/", User: nil, KeepCapabilities: true, KeepPrivileges: true, Mounts: m}
	session.Foreign = []string{s.at, filepath.Join(p.alloc, "absent")}
	if got := runPolicy(t, session, "true"); !strings.Contains(got.reason, "absent") {
		t.Errorf("a missing mount: %q", got.reason)
	}
	if got := runPolicy(t, outer, "cat "+s.at+"/own"); !strings.Contains(got.out, "the volume's") {
		t.Errorf("control: %q, %q", got.reason, got.out)
	}
}

// A session reports a granted path that passes through a link of another user, as a start does. It
// omits an optional path, and a path that no longer exists.
func TestGrantInSessionLink(t *testing.T) {
	p := newPlaces(t)
	s := newSpread(t, p)
	link := filepath.Join(p.alloc, "others-link")
	if err := errors.Join(os.Symlink(s.host, link), os.Lchown(link, 88124, 88124)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path sandbox.Path
		want string
	}{
		{sandbox.Path{Modes: "r", Name: link}, link + " is a symbolic link"},
		{sandbox.Path{Modes: "r", Name: "canary", Beneath: link}, link + " is a symbolic link"},
		{sandbox.Path{Modes: "r", Name: link, Optional: true}, ""},
		{sandbox.Path{Modes: "r", Name: link + "-gone"}, ""},
	} {
		task := s.granting(p, nil, tt.path)
		got := runPolicy(t, task.Session([]string{"/bin/sh"}, nil), "cat "+s.canary+" && echo READ")
		if !strings.Contains(got.reason, tt.want) || (got.reason == "") != (tt.want == "") || strings.Contains(got.out, "READ") {
			t.Errorf("%s: reason %q, output %q, want a reason with %q", tt.path, got.reason, got.out, tt.want)
		}
	}
}

// A bind shows the host's files, whatever another bind covers. No bind follows a link inside
// another one.
func TestBindsDoNotCoverEachOther(t *testing.T) {
	p := newPlaces(t)
	s := newSpread(t, p)
	below := filepath.Join(s.at, "sub")
	write(t, filepath.Join(below, "own"), "below, on the host")
	other := filepath.Join(p.alloc, "other")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	m := &sandbox.Mounts{Binds: []sandbox.Bind{
		{Source: sandbox.Path{Name: s.volume}, Target: s.at}, {Source: sandbox.Path{Name: below}, Target: other},
	}}
	if got := runPolicy(t, p.policy(m), "cat "+other+"/own"); got.out != "below, on the host" {
		t.Errorf("the program was %q, wrote %q", got.reason, got.out)
	}
	m.Binds[1] = sandbox.Bind{Source: sandbox.Path{Name: other}, Target: s.at + "/sub/canary-dir"}
	if err := os.Mkdir(filepath.Join(s.host, "canary-dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := runPolicy(t, p.policy(m), "true"); !strings.Contains(got.reason, "hides it") {
		t.Errorf("a destination through a link of a volume: %q, %q", got.reason, got.out)
	}
}

package artifact_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// captured is a program that a hostile server has taken over. It can do what its user can in its directory,
// and sends what it wants.
type captured func(work string, out io.Writer) error

func (c captured) run(_ context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
	if err := c(s.Dir, s.Stdio[1]); err != nil {
		return nil, fmt.Errorf("the test cannot prepare the attack: %w", err)
	}
	return &drivers.ExitResult{}, nil
}

func done(out io.Writer, m fetch.Message) error {
	m.Kind = fetch.Done
	return fetch.Write(out, m)
}

// The parent refuses what a program leaves, whatever the program says.
func TestCapturedProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for devices and another owner")
	}
	const source = "https://host/file"
	host := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(host, []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := func(make func(out string) error) captured {
		return func(work string, w io.Writer) error {
			out := filepath.Join(work, "out")
			return errors.Join(os.Mkdir(out, 0o755), make(out), done(w, fetch.Message{}))
		}
	}
	for _, c := range []struct {
		name, want string
		program    captured
	}{
		{"link to a file", `the link "l" leads to`, dir(func(out string) error { return os.Symlink(host, out+"/l") })},
		{"hard link to a file", `"h" is a hard link`, dir(func(out string) error { return os.Link(host, out+"/h") })},
		{"two hard links", `is a hard link`, dir(func(out string) error {
			return errors.Join(os.WriteFile(out+"/a", nil, 0o644), os.Link(out+"/a", out+"/b"))
		})},
		{"device", `"dev" is neither a file`, dir(func(out string) error { return unix.Mknod(out+"/dev", unix.S_IFCHR|0o666, 0x103) })},
		{"block device", `"dev" is neither a file`, dir(func(out string) error { return unix.Mknod(out+"/dev", unix.S_IFBLK|0o666, 0x700) })},
		{"FIFO", `"pipe" is neither a file`, dir(func(out string) error { return syscall.Mkfifo(out+"/pipe", 0o666) })},
		{"socket", `"sock" is neither a file`, dir(func(out string) error { return unix.Mknod(out+"/sock", unix.S_IFSOCK|0o666, 0) })},
		{"control character", `contains a control character`, dir(func(out string) error { return os.WriteFile(out+"/a\x1bb", nil, 0o644) })},
		{"reserved name", "", dir(func(out string) error { return os.WriteFile(out+"/ok", nil, 0o644) })},
		{"out is a link", "the download is a symbolic link", func(work string, w io.Writer) error {
			return errors.Join(os.Symlink(filepath.Dir(host), work+"/out"), done(w, fetch.Message{}))
		}},
		{"file is a link", "not a regular file with a single name", func(work string, w io.Writer) error {
			return errors.Join(os.Mkdir(work+"/out", 0o755), os.Symlink(host, work+"/out/f"), done(w, fetch.Message{File: "out/f"}))
		}},
		{"file is a hard link", "not a regular file with a single name", func(work string, w io.Writer) error {
			return errors.Join(os.Mkdir(work+"/out", 0o755), os.Link(host, work+"/out/f"), done(w, fetch.Message{File: "out/f"}))
		}},
		{"directory of the file is a link", "not a directory", func(work string, w io.Writer) error {
			return errors.Join(os.Symlink(filepath.Dir(host), work+"/out"), done(w, fetch.Message{File: "out/host"}))
		}},
		{"file elsewhere", "the program returned the file",
			func(_ string, w io.Writer) error { return done(w, fetch.Message{File: "../../../etc/passwd"}) }},
		{"file above", "leaves its directory", func(work string, w io.Writer) error {
			return errors.Join(os.Mkdir(work+"/out", 0o755), done(w, fetch.Message{File: "out/../x"}))
		}},
		{"file is out/..", "leaves its directory", func(work string, w io.Writer) error {
			return errors.Join(os.Mkdir(work+"/out", 0o755), done(w, fetch.Message{File: "out/.."}))
		}},
		{"archive is a link", "not a regular file with a single name", func(work string, w io.Writer) error {
			return errors.Join(os.Symlink(host, work+"/archive"), done(w, fetch.Message{Archive: true}))
		}},
		{"archive is a FIFO", "not a regular file with a single name", func(work string, w io.Writer) error {
			return errors.Join(syscall.Mkfifo(work+"/archive", 0o666), done(w, fetch.Message{Archive: true}))
		}},
		{"nothing", "the download is empty", func(_ string, w io.Writer) error { return done(w, fetch.Message{}) }},
		{"no message", "exited with status 0", func(string, io.Writer) error { return nil }},
		{"malformed message", "malformed message", func(_ string, w io.Writer) error { return printTo(w, "hello\n") }},
		{"long message", "message is longer than", func(_ string, w io.Writer) error { return printTo(w, strings.Repeat("x", 20<<10)) }},
		{"many messages", "more than 20000 messages", func(_ string, w io.Writer) error { return printTo(w, strings.Repeat("{}\n", 20_001)) }},
		{"failure with control characters", "a [31m b", func(_ string, w io.Writer) error {
			return printTo(w, `{"Kind":"failed","Text":"a \u001b[31m\nb"}`+"\n")
		}},
		{"failure with a URL", "Get https://h/x: no (http://i/y)", func(_ string, w io.Writer) error {
			return printTo(w, `{"Kind":"failed","Text":"Get https://u:pw@h/x?sig=abc: no (http://i/y?z=1)"}`+"\n")
		}},
		{"many files", "more files than the limit of", dir(func(out string) error {
			for i := range 400 {
				if err := os.WriteFile(fmt.Sprint(out, "/", i), nil, 0o644); err != nil {
					return err
				}
			}
			return nil
		})},
		{"many bytes", "larger than the limit of", dir(func(out string) error {
			return errors.Join(os.WriteFile(out+"/a", nil, 0o644), os.Truncate(out+"/a", 20<<20))
		})},
		{"deep", "levels of directories", dir(func(out string) error { return os.MkdirAll(out+strings.Repeat("/d", 200), 0o755) })},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, config())
			h.task.Run = c.program.run
			a := &nomad.TaskArtifact{GetterSource: source, RelativeDest: "local/"}
			if c.want == "" {
				h.gets(a)
				return
			}
			h.refused(a, c.want)
		})
	}
	info, err := os.Stat(host)
	if b, _ := os.ReadFile(host); err != nil || string(b) != "host" || info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("the file of the host has %q, mode %v, %v", b, info.Mode(), err)
	}
}

func printTo(w io.Writer, text string) error {
	// The parent may stop reading.
	if _, err := io.WriteString(w, text); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return nil
}

// Special bits and owners are the parent's decision.
func TestCapturedModes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for another owner")
	}
	for _, chown := range []bool{false, true} {
		h := newHarness(t, config())
		h.task.Run = captured(func(work string, w io.Writer) error {
			out := filepath.Join(work, "out")
			return errors.Join(os.MkdirAll(out+"/d", 0o755), os.WriteFile(out+"/d/f", []byte("x"), 0o644), os.Symlink("f", out+"/d/l"),
				os.Chown(out+"/d/f", 80099, 80099),
				os.Chmod(out+"/d/f", 0o755|os.ModeSetuid|os.ModeSetgid), os.Chmod(out+"/d", 0o077|os.ModeSticky|os.ModeSetgid),
				done(w, fetch.Message{}))
		}).run
		h.gets(&nomad.TaskArtifact{GetterSource: "https://host/x", RelativeDest: "local/", Chown: chown})
		want := 80099
		if chown {
			want = taskUID
		}
		for name, mode := range map[string]os.FileMode{"d": os.ModeDir | 0o777, "d/f": 0o755} {
			info, err := os.Lstat(filepath.Join(h.local, name))
			if err != nil {
				t.Fatal(err)
			}
			if owner := int(info.Sys().(*syscall.Stat_t).Uid); info.Mode() != mode || name == "d/f" && owner != want || chown && owner != want {
				t.Errorf("chown %v: %s has mode %v and owner %d", chown, name, info.Mode(), owner)
			}
		}
	}
}

// Limits hold while the program runs: it is ended at once, not after it has finished.
func TestCapturedRuns(t *testing.T) {
	cfg := config()
	cfg.Timeouts.HTTP = 0
	for name, fill := range map[string]func(work string, i int) error{
		"bytes": func(work string, i int) error {
			return os.WriteFile(fmt.Sprint(work, "/", i), make([]byte, 1<<20), 0o644)
		},
		"files": func(work string, i int) error { return os.WriteFile(fmt.Sprint(work, "/", i), nil, 0o644) },
	} {
		h := newHarness(t, cfg)
		h.task.Run = func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
			for i := 0; ctx.Err() == nil; i++ {
				if i < 500 {
					if err := fill(s.Dir, i); err != nil {
						return nil, err
					}
				}
			}
			return nil, ctx.Err()
		}
		r := h.get(&nomad.TaskArtifact{GetterSource: "https://host/x"})
		if r.Err == nil || !strings.Contains(r.Err.Error(), "than the limit of") {
			t.Errorf("%s: %v", name, r.Err)
		}
	}
}

// What the program gets: its directory, its environment, and no directory of the task.
func TestSidecar(t *testing.T) {
	t.Setenv("NOMAD_TOKEN", "of-the-agent")
	cfg := config()
	cfg.Env = map[string]string{"HTTPS_PROXY": "http://proxy", "EMPTY": ""}
	cfg.ExtraPaths = []artifact.ExtraPath{{Modes: "rx", Name: "/opt/tool"}}
	h := newHarness(t, cfg)
	for source, programs := range map[string]bool{"https://host/x": false, "git::https://host/x": true} {
		var got drivers.Sidecar
		h.task.Run = func(_ context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
			got = *s
			return nil, errors.New("enough")
		}
		if r := h.get(&nomad.TaskArtifact{GetterSource: source}); r.Err == nil || !strings.Contains(r.Err.Error(), "start the program: enough") {
			t.Errorf("%s: %v", source, r.Err)
		}
		if len(got.Env) != 5 || got.Env["HTTPS_PROXY"] != "http://proxy" || got.Env["PATH"] != "/usr/local/bin:/usr/bin:/bin" ||
			got.Env["HOME"] != got.Dir+"/home" || got.Env["TMPDIR"] != got.Dir+"/tmp" {
			t.Errorf("%s: environment %v in %s", source, got.Env, got.Dir)
		}
		if want := fmt.Sprint([]string{h.task.Dir.SecretsPath(), h.task.Dir.Path() + "/private"}); fmt.Sprint(got.Hide) != want {
			t.Errorf("%s: hides %v, want %s", source, got.Hide, want)
		}
		writable, extra, bin := "", false, false
		for _, p := range got.Paths {
			if strings.ContainsAny(p.Modes, "wc") && p.Name != "/dev/null" {
				writable += p.Name + " "
			}
			extra = extra || p.Name == "/opt/tool" && p.Modes == "rx"
			bin = bin || p.Name == "/usr/bin"
			for _, secret := range []string{"/root", "/home", "/etc/shadow", h.task.Dir.SecretsPath()} {
				if p.Name == secret || strings.HasPrefix(p.Name, secret+"/") {
					t.Errorf("%s: %s is accessible", source, p.Name)
				}
			}
		}
		if writable != "work " || !extra || bin != programs {
			t.Errorf("%s: writable %q, extra path %v, programs %v", source, writable, extra, bin)
		}
		if got.Limits.FileSize != 8<<20 || got.Unconfined || got.NoTCP {
			t.Errorf("%s: limits %+v, unconfined %v, without TCP %v", source, got.Limits, got.Unconfined, got.NoTCP)
		}
	}
}

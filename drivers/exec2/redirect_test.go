package exec2_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/testrename"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// redirection is a volume with a directory "conf", and a host directory that was not granted to any
// task.
type redirection struct{ volume, conf, host string }

func (f *fixture) redirection() redirection {
	t := f.t
	t.Helper()
	r := redirection{volume: filepath.Join(f.dir, "volume"), host: filepath.Join(f.dir, "host")}
	r.conf = filepath.Join(r.volume, "conf")
	testtask.MakeDir(t, r.volume)
	testtask.MakeDir(t, r.conf)
	if err := errors.Join(os.Mkdir(r.host, 0o755), os.WriteFile(filepath.Join(r.host, "f"), []byte("canary\n"), 0o644),
		os.WriteFile(filepath.Join(r.conf, "f"), []byte("own\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return r
}

// start starts a task that reads the granted file and the host's file, and returns its output or
// the start error.
func (f *fixture) start(cfg *drivers.TaskConfig) (string, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := f.StartTask(ctx, cfg); err != nil {
		return "", err
	}
	return f.wait(cfg).Stdout, nil
}

func (f *fixture) reader(r redirection, script string, unveil ...string) *drivers.TaskConfig {
	cfg := f.task("")
	f.config(cfg, "sh", []string{"-c", script + " cat " + r.conf + "/f " + r.host + "/f; true"}, unveil...)
	return cfg
}

// A task that may write to a volume replaces a directory in it by a link. A later start does not
// follow the link, by any name of the path and for any user.
func TestUnveilBelowAVolume(t *testing.T) {
	for name, tt := range map[string]struct {
		user   string                                 // of the task that plants the link
		volume func(*drivers.TaskConfig, redirection) // adds the volume to the second task
		unveil string                                 // of the second task
	}{
		"its own volume, by its destination": {"", mountAtTmp, "/tmp/vol/conf"},
		"its own volume, by the host's name": {"", mountAtTmp, "CONF"},
		"another task's volume":              {"", nil, "CONF"},
		"its own volume, planted by root":    {"root", mountAtTmp, "CONF"},
		"a volume of the node, planted by root": {"root", func(cfg *drivers.TaskConfig, r redirection) {
			cfg.Writable = []string{r.volume}
		}, "CONF"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, settings{"allow_root": cty.True})
			r := f.redirection()
			unveil := "r:" + strings.Replace(tt.unveil, "CONF", r.conf, 1)
			second := func() *drivers.TaskConfig {
				cfg := f.reader(r, "cat /tmp/vol/conf/f;", unveil)
				if tt.volume != nil {
					tt.volume(cfg, r)
				}
				return cfg
			}
			if out, err := f.start(second()); err != nil || !strings.Contains(out, "own\n") || strings.Contains(out, "canary") {
				t.Fatalf("before: %q, %v, want what the volume holds", out, err)
			}
			planter := f.reader(r, "mv /tmp/vol/conf /tmp/vol/was && ln -s "+r.host+" /tmp/vol/conf && echo planted;")
			mountAtTmp(planter, r)
			if tt.user != "" {
				planter.User = tt.user
			}
			if out, err := f.start(planter); err != nil || !strings.Contains(out, "planted") {
				t.Fatalf("the link is not planted: %q, %v", out, err)
			}
			if out, err := f.start(second()); err == nil || strings.Contains(out, "canary") {
				t.Errorf("after: %q, %v, want the start to fail", out, err)
			} else if !strings.Contains(err.Error(), "symbolic link") {
				t.Errorf("StartTask() = %v, want an error that names the link", err)
			}
		})
	}
}

func mountAtTmp(cfg *drivers.TaskConfig, r redirection) {
	cfg.Mounts = []drivers.Mount{{TaskPath: "/tmp/vol", HostPath: r.volume}}
}

// The directory and the link are exchanged continuously while tasks start. No task reads the target
// of the link.
func TestUnveilRace(t *testing.T) {
	f := newFixture(t, nil)
	r := f.redirection()
	link := filepath.Join(r.volume, "link")
	if err := errors.Join(os.Symlink(r.host, link), os.Lchown(link, 88000, 88000)); err != nil {
		t.Fatal(err)
	}
	end := testrename.Exchange(link, r.conf)
	started, refused := 0, 0
	over := time.After(20 * time.Second)
	for n := 0; n < 400 && (n < 60 || started == 0 || refused == 0); n++ {
		out, err := f.start(f.reader(r, "", "r:"+r.conf))
		if strings.Contains(out, "canary") {
			t.Error("a task read what the link leads to")
			break
		}
		if started++; err != nil {
			started, refused = started-1, refused+1
		}
		select {
		case <-over:
			n = 400
		default:
		}
	}
	end()
	t.Logf("%d tasks started, %d were refused", started, refused)
	if started+refused == 0 {
		t.Error("no task was started")
	}
}

package docker_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// has reports whether the daemon has an image.
func (f *fixture) has(ref string) bool {
	f.t.Helper()
	_, err := f.daemon.API.ImageInspect(f.t.Context(), ref)
	return err == nil
}

// auth is an auth block.
func auth(secret string) block {
	return block{"auth": block{"username": registryUser, "password": secret, "server_address": "ignored"}}
}

// Tasks that start at the same time share one pull, and its progress is reported to both.
func TestPull(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r := newRegistry(t)
	r.slow = make(chan struct{})
	var started sync.WaitGroup
	var ids []string
	for range 2 {
		cfg := f.task(shell("echo pulled", block{"image": r.image("1")}, auth(registrySecret)))
		ids = append(ids, cfg.ID)
		started.Go(func() {
			if _, err := f.StartTask(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	for _, id := range ids {
		testpace.Until(t, "progress in bytes", func() bool {
			for _, m := range f.messages(id) {
				if strings.HasPrefix(m, "Docker image pull progress: Pulled 0/1 (") && !strings.Contains(m, "(0B/0B)") &&
					strings.Contains(m, "layers: 0 waiting/1 pulling") {
					return true
				}
			}
			return false
		})
		if list := f.messages(id); list[0] != "Downloading image" {
			t.Errorf("events = %q", list)
		}
	}
	close(r.slow)
	started.Wait()
	for _, id := range ids {
		if exit := f.wait(id); !exit.Successful() {
			t.Errorf("exit = %+v", exit)
		}
		if err := f.DestroyTask(id, false); err != nil {
			t.Error(err)
		}
	}
	if layers, tags := r.requests(); layers != 1 || tags != 1 {
		t.Errorf("the layer was fetched %d times, the tag looked up %d times, want once", layers, tags)
	}
}

// An image is pulled if the daemon lacks it, or if the job wants the newest.
func TestPullAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r := newRegistry(t)
	pulls := func(config block) int {
		t.Helper()
		cfg := f.task(shell("true", config, auth(registrySecret)))
		f.start(cfg)
		f.wait(cfg.ID)
		return len(f.messages(cfg.ID))
	}
	for i, c := range []struct {
		config block
		pulled bool
	}{{block{"image": r.image("1")}, true}, {block{"image": r.image("1")}, false}, {block{"image": r.image("1"), "force_pull": true}, true},
		{block{"image": r.image("latest")}, true}, {block{"image": r.image("latest")}, true}, {block{"image": testdocker.Image}, false}} {
		if got := pulls(c.config) > 0; got != c.pulled {
			t.Errorf("start %d of %v pulls = %v, want %v", i, c.config, got, c.pulled)
		}
	}
}

// Credentials come from the task, from a file, or from a helper. They are in no error.
func TestAuth(t *testing.T) {
	r := newRegistry(t)
	f := newFixture(t, nil)
	pull := func(t *testing.T, config block, more ...block) error {
		t.Helper()
		all := block{"endpoint": f.daemon.Endpoint()}
		for name, value := range config {
			all[name] = value
		}
		d := f.open("docker", all)
		cfg := f.task(shell("true", append(more, block{"image": r.image("1"), "force_pull": true})...))
		_, err := d.StartTask(t.Context(), cfg)
		if err == nil {
			err = d.DestroyTask(cfg.ID, true)
		}
		return err
	}
	for name, config := range map[string]block{"file": {"auth": block{"config": r.authFile(t, f)}},
		"helper":             {"auth": r.helper(t)},
		"helper of the file": {"auth": block{"config": r.helperFile(t, f), "helper_dir": r.helper(t)["helper_dir"]}},
		"store of the file":  {"auth": block{"config": r.storeFile(t, f), "helper_dir": r.helper(t)["helper_dir"]}}} {
		t.Run(name, func(t *testing.T) {
			if err := pull(t, config); err != nil {
				t.Error(err)
			}
		})
	}
	f.write(f.dir, "broken.json", "{ hidden")
	for name, c := range map[string]struct {
		config block
		task   block
		want   string
	}{
		"none":            {nil, nil, "Failed to pull `" + r.image("1") + "`"},
		"wrong":           {nil, auth("wrong secret"), "Failed to pull"},
		"broken file":     {block{"auth": block{"config": f.dir + "/broken.json"}}, nil, "Failed to find docker auth for repo"},
		"missing file":    {block{"auth": block{"config": f.dir + "/none.json"}}, nil, "Failed to find docker auth for repo"},
		"missing helper":  {block{"auth": block{"helper": "none"}}, nil, "docker-credential-none"},
		"helper, a path":  {block{"auth": block{"helper": "../x"}}, nil, "is not the name of a credential helper"},
		"soft, but wrong": {block{"auth": block{"helper": "none"}}, block{"auth_soft_fail": true}, "Failed to pull"},
	} {
		t.Run(name, func(t *testing.T) {
			err := pull(t, c.config, c.task)
			var again *drivers.RecoverableError
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.As(err, &again) {
				t.Fatalf("StartTask() = %v, want %q, recoverable", err, c.want)
			}
			for _, secret := range []string{registrySecret, "wrong secret", "hidden"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error has a secret: %v", err)
				}
			}
		})
	}
	var again *drivers.RecoverableError
	cfg := f.task(shell("true", block{"image": r.image("9")}, auth(registrySecret)))
	if _, err := f.StartTask(t.Context(), cfg); err == nil || errors.As(err, &again) || !strings.Contains(err.Error(), "manifest unknown") {
		t.Errorf("StartTask() of an unknown image = %v, want one that is not recoverable", err)
	}
}

// A pull ends with its time limit.
func TestPullTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r := newRegistry(t)
	r.slow = make(chan struct{})
	defer close(r.slow)
	cfg := f.task(shell("true", block{"image": r.image("1"), "image_pull_timeout": "500ms"}, auth(registrySecret)))
	_, err := f.StartTask(t.Context(), cfg)
	var again *drivers.RecoverableError
	if !errors.As(err, &again) || !strings.Contains(err.Error(), "deadline exceeded") {
		t.Errorf("StartTask() = %v, want a time-out", err)
	}
}

// An archive in the task's local directory is loaded. A link out of it is not followed.
func TestLoad(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	saved, err := f.daemon.API.ImageSave(t.Context(), []string{testdocker.Image})
	if err != nil {
		t.Fatal(err)
	}
	archive, err := io.ReadAll(saved)
	saved.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.daemon.API.ImageRemove(t.Context(), testdocker.Image, client.ImageRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ load, want string }{
		"missing": {"none.tar", "unable to open image archive"}, "outside": {"../../x.tar", "unable to open image archive"},
		"a link out": {"link.tar", "unable to open image archive"}, "not an archive": {"text.tar", "load image archive"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shell("true", block{"load": c.load}))
			f.write(cfg.LocalDir, "text.tar", "text")
			f.write(f.dir, "image.tar", string(archive))
			if err := os.Symlink(f.dir+"/image.tar", filepath.Join(cfg.LocalDir, "link.tar")); err != nil {
				t.Fatal(err)
			}
			if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("StartTask() = %v, want %q", err, c.want)
			}
		})
	}
	cfg := f.task(shell("echo loaded", block{"load": "image.tar"}))
	f.write(cfg.LocalDir, "image.tar", string(archive))
	f.start(cfg)
	f.wait(cfg.ID)
	if out, _ := f.output(cfg); out != "loaded\n" {
		t.Errorf("output = %q", out)
	}
}

// An image is removed after its last task and the delay, unless a container uses it.
func TestImageRemoval(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"gc": block{"image_delay": "300ms"}})
	first, second := f.task(shell("sleep 1000")), f.task(shell("sleep 1000"))
	f.start(first)
	f.start(second)
	if err := f.DestroyTask(first.ID, true); err != nil {
		t.Fatal(err)
	}
	third := f.task(shell("sleep 1000"))
	f.start(third)
	for _, id := range []string{second.ID, third.ID} {
		if !f.has(testdocker.Image) {
			t.Fatal("the image of a running task was removed")
		}
		if err := f.DestroyTask(id, true); err != nil {
			t.Fatal(err)
		}
	}
	testpace.Until(t, "the removal of the image", func() bool { return !f.has(testdocker.Image) })
	if !f.has(testdocker.Pause) {
		t.Error("an image that no task has used was removed")
	}
}

// With gc off, images and containers stay.
func TestNoRemoval(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"gc": block{"image": false, "container": false, "image_delay": "1ms"}})
	cfg := f.task(shell("true"))
	f.start(cfg)
	f.wait(cfg.ID)
	status, err := f.InspectTask(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.DestroyTask(cfg.ID, false); err != nil {
		t.Fatal(err)
	}
	if c := f.inspect(status.Attributes["container_id"]); c.State.Running || !f.has(testdocker.Image) {
		t.Errorf("container = %+v, image %v", c.State, f.has(testdocker.Image))
	}
	again := *cfg
	again.ID = cfg.AllocID + "/web/99999999"
	f.start(&again) // the name of the container is that of the previous start
	if exit := f.wait(again.ID); !exit.Successful() {
		t.Errorf("exit = %+v", exit)
	}
}

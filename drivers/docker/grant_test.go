package docker_test

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/drivers/docker"
	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// of returns a task of a job in a namespace.
func (f *fixture) of(namespace, job string, config block) *drivers.TaskConfig {
	cfg := f.task(config)
	cfg.Namespace, cfg.JobID = namespace, job
	return cfg
}

// outcome starts a task with a driver and returns its output, or the error.
func (f *fixture) outcome(d *docker.Driver, cfg *drivers.TaskConfig) (string, error) {
	f.t.Helper()
	if _, err := d.StartTask(f.t.Context(), cfg); err != nil {
		return "", err
	}
	exit, err := d.WaitTask(f.t.Context(), cfg.ID)
	if err != nil || !exit.Successful() {
		f.t.Errorf("WaitTask() = %+v, %v", exit, err)
	}
	out, _ := f.output(cfg)
	if err := d.DestroyTask(cfg.ID, true); err != nil {
		f.t.Error(err)
	}
	return out, nil
}

// archive returns an archive of an image whose command prints a text, under a name.
func (f *fixture) archive(ref, text string) string {
	f.t.Helper()
	made, err := f.daemon.API.ContainerCreate(f.t.Context(), client.ContainerCreateOptions{Image: testdocker.Image})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.daemon.API.ContainerCommit(f.t.Context(), made.ID,
		client.ContainerCommitOptions{Reference: ref, Changes: []string{"CMD [\"echo\", \"" + text + "\"]"}}); err != nil {
		f.t.Fatal(err)
	}
	saved, err := f.daemon.API.ImageSave(f.t.Context(), []string{ref})
	if err != nil {
		f.t.Fatal(err)
	}
	defer saved.Close()
	out, err := io.ReadAll(saved)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, remove := range []func() error{
		func() error {
			_, err := f.daemon.API.ContainerRemove(f.t.Context(), made.ID, client.ContainerRemoveOptions{Force: true})
			return err
		},
		func() error {
			_, err := f.daemon.API.ImageRemove(f.t.Context(), ref, client.ImageRemoveOptions{})
			return err
		},
	} {
		if err := remove(); err != nil {
			f.t.Fatal(err)
		}
	}
	return string(out)
}

// tagOf returns the ID that a name has, "" for none.
func (f *fixture) tagOf(ref string) string {
	found, err := f.daemon.API.ImageInspect(f.t.Context(), ref)
	if err != nil {
		return ""
	}
	return found.ID
}

// TestLoad_OtherNames checks that an archive of a job cannot give a name to an image that another job then runs.
func TestLoad_OtherNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const victim = "victim.example/web:1.2"
	evil := f.archive(victim, "EVIL")
	next := func() *docker.Driver { return f.open(docker.Name, f.config) }
	load := func(image, archive string) *drivers.TaskConfig {
		cfg := f.of("b", "attack", block{"image": image, "load": "evil.tar"})
		f.write(cfg.LocalDir, "evil.tar", archive)
		return cfg
	}
	if _, err := f.outcome(next(), load("attacker/none:1", evil)); err == nil ||
		!strings.Contains(err.Error(), "no other name than that of the task's image") {
		t.Errorf("an archive with the name of another image: %v", err)
	}
	if f.tagOf(victim) != "" {
		t.Error("the refused archive left a name")
	}
	// The attacker's job gives the name to its own image. Only that job runs it, also after a restart.
	if out, err := f.outcome(next(), load(victim, evil)); err != nil || out != "EVIL\n" {
		t.Errorf("the own image: %q, %v", out, err)
	}
	for _, job := range [][2]string{{"default", "vic"}, {"b", "other"}, {"default", "attack"}} {
		if out, err := f.outcome(next(), f.of(job[0], job[1], block{"image": victim})); err == nil || out != "" {
			t.Errorf("job %v runs the image of another job: %q", job, out)
		}
	}
	if out, err := f.outcome(next(), load(victim, evil)); err != nil || out != "EVIL\n" {
		t.Errorf("the own image again: %q, %v", out, err)
	}
	// A job can have several images.
	newer := f.archive("victim.example/web:2", "NEWER")
	own := f.of("b", "attack", block{"image": "victim.example/web:2", "load": "evil.tar"})
	f.write(own.LocalDir, "evil.tar", newer)
	if out, err := f.outcome(next(), own); err != nil || out != "NEWER\n" {
		t.Errorf("another image: %q, %v", out, err)
	}
}

// TestLoad_TakenName checks that a load never moves a name to another image, but for the job that has given it.
func TestLoad_TakenName(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first, second := f.archive("app:1", "first"), f.archive("app:1", "second")
	run := func(namespace, job, archive, image string) (string, error) {
		cfg := f.of(namespace, job, block{"image": image, "load": "a.tar", "force_pull": true})
		f.write(cfg.LocalDir, "a.tar", archive)
		return f.outcome(f.Driver, cfg)
	}
	for _, c := range []struct {
		namespace, job, archive, want string
	}{{"a", "web", first, "first\n"}, {"a", "web", second, "second\n"}, {"a", "web", first, "first\n"}, {"b", "web", second, ""},
		{"a", "api", second, ""}, {"b", "web", first, "first\n"}} {
		out, err := run(c.namespace, c.job, c.archive, "app:1")
		if out != c.want || (err == nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), "has another image called") {
			t.Errorf("%s/%s: %q, %v, want %q", c.namespace, c.job, out, err, c.want)
		}
	}
	other := f.archive("operator:1", "evil")
	if _, err := f.daemon.API.ImageTag(t.Context(), client.ImageTagOptions{Source: testdocker.Image, Target: "operator:1"}); err != nil {
		t.Fatal(err)
	}
	if out, err := run("a", "web", other, "operator:1"); err == nil || f.tagOf("operator:1") != f.tagOf(testdocker.Image) {
		t.Errorf("a load takes the name of the operator's image: %q, %v", out, err)
	}
}

// TestPrivateImage checks that an image that the node has needs the credentials that the registry asks for. The registry
// is asked once for each credentials and agent.
func TestPrivateImage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r := newRegistry(t)
	web := func(more ...block) *drivers.TaskConfig {
		return f.of("b", "web", shell("echo private", append(more, block{"image": r.image("1")})...))
	}
	asked := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.asked
	}
	if out, err := f.outcome(f.Driver, web(auth(registrySecret))); err != nil || out != "private\n" {
		t.Fatalf("the first pull: %q, %v", out, err)
	}
	drivers := map[string]*docker.Driver{"the same agent": f.Driver, "the next agent": f.open(docker.Name, f.config),
		"another instance": f.open("docker-other", f.config)}
	for name, d := range drivers {
		before := asked()
		for _, more := range []block{nil, auth("wrong"), {"auth_soft_fail": true}} {
			if out, err := f.outcome(d, web(more)); err == nil || !strings.Contains(err.Error(), "which was pulled with credentials") ||
				strings.Contains(err.Error(), "wrong") {
				t.Errorf("%s, without the credentials: %q, %v", name, out, err)
			}
		}
		for range 3 {
			if out, err := f.outcome(d, web(auth(registrySecret))); err != nil || out != "private\n" {
				t.Errorf("%s, with the credentials: %q, %v", name, out, err)
			}
		}
		want := 1
		if d == f.Driver {
			want = 0 // the pull has asked
		}
		if got := asked() - before; got != want {
			t.Errorf("%s: the registry was asked %d times, want %d", name, got, want)
		}
	}
	if out, err := f.outcome(f.Driver, f.of("b", "web", shell("echo operator"))); err != nil || out != "operator\n" {
		t.Errorf("an image of the operator: %q, %v", out, err)
	}
	if _, err := f.daemon.API.ImageTag(t.Context(),
		client.ImageTagOptions{Source: testdocker.Image, Target: "registry.invalid/built:1"}); err != nil {
		t.Fatal(err)
	}
	if out, err := f.outcome(f.Driver,
		f.of("b", "web", shell("echo built", block{"image": "registry.invalid/built:1"}, auth("unused")))); err != nil || out != "built\n" {
		t.Errorf("an image of the operator that no registry has: %q, %v", out, err)
	}
	if names, err := filepath.Glob(filepath.Join(f.dir, "images", "*")); err != nil || len(names) != 1 {
		t.Errorf("records %q, %v, want one", names, err)
	}
}

// TestPull_OtherCredentials checks that a task does not get an image from the pull of another task with other credentials.
func TestPull_OtherCredentials(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	r := newRegistry(t)
	r.slow = make(chan struct{})
	var started sync.WaitGroup
	first := f.of("a", "web", shell("true", block{"image": r.image("1")}, auth(registrySecret)))
	started.Go(func() {
		if _, err := f.StartTask(t.Context(), first); err != nil {
			t.Error(err)
		}
	})
	testpace.Until(t, "the layer is requested", func() bool { layers, _ := r.requests(); return layers > 0 })
	second := f.of("b", "thief", shell("true", block{"image": r.image("1")}, auth("wrong")))
	failed := make(chan error, 1)
	go func() {
		_, err := f.StartTask(t.Context(), second)
		failed <- err
	}()
	testpace.Until(t, "the second pull begins", func() bool { return len(f.messages(second.ID)) > 0 })
	close(r.slow)
	started.Wait()
	if err := <-failed; err == nil {
		t.Error("a task got the image with other credentials")
	}
	if err := f.DestroyTask(first.ID, true); err != nil && !errors.Is(err, drivers.ErrTaskNotFound) {
		t.Error(err)
	}
}

package container

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/open-nomad/open-nomad/internal/testdocker"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// releaseContext lays out the files of a release that the image file copies, as packaging/release/build
// does, and returns an archive of them. It reads from tar's output.
func releaseContext(t *testing.T) io.Reader {
	t.Helper()
	bin, err := filepath.Abs("../../bin/nomad")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skip("run make build")
	}
	dir := licences(t)
	run(t, "mkdir", "-p", filepath.Join(dir, "container/state"))
	run(t, "cp", "Containerfile", "passwd", filepath.Join(dir, "container"))
	run(t, "cp", "../../LICENSE", dir)
	run(t, "ln", "-s", bin, filepath.Join(dir, "nomad_linux_"+runtime.GOARCH))
	tar := exec.Command("tar", "--create", "--dereference", "--directory", dir, ".")
	out, err := tar.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tar.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tar.Wait(); err != nil {
			t.Errorf("tar: %v", err)
		}
	})
	return out
}

// execute runs a program in a container and returns its output.
func execute(ctx context.Context, api *client.Client, id string, command ...string) (string, error) {
	made, err := api.ExecCreate(ctx, id, client.ExecCreateOptions{AttachStdout: true, AttachStderr: true, Cmd: command})
	if err != nil {
		return "", err
	}
	conn, err := api.ExecAttach(ctx, made.ID, client.ExecAttachOptions{})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, conn.Reader)
	return out.String(), err
}

// printLog prints the output of a container if the test has failed.
func printLog(t *testing.T, api *client.Client, id string) {
	if !t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	log, err := api.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "50"})
	if err != nil {
		t.Logf("read the log of the container: %v", err)
		return
	}
	defer log.Close()
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, log)
	t.Logf("log of the container: %v\n%s", err, &out)
}

// TestDocker builds the image with Docker, starts the server of the image, and requests its leader.
func TestDocker(t *testing.T) {
	d := testdocker.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	arch, tag := runtime.GOARCH, "open-nomad/server:1"
	built, err := d.API.ImageBuild(ctx, releaseContext(t),
		client.ImageBuildOptions{Version: build.BuilderV1, Dockerfile: "container/Containerfile",
			Tags: []string{tag}, Remove: true, ForceRemove: true, BuildArgs: map[string]*string{"TARGETARCH": &arch}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := io.ReadAll(built.Body)
	built.Body.Close()
	if err != nil || bytes.Contains(log, []byte(`"error"`)) || !bytes.Contains(log, []byte("Successfully tagged "+tag)) {
		t.Fatalf("build the image: %v\n%s", err, log)
	}
	config := t.TempDir()
	if err := os.Chmod(filepath.Dir(config), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "cp", "../etc/server.hcl.example", filepath.Join(config, "server.hcl"))
	made, err := d.API.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: tag},
		HostConfig: &container.HostConfig{NetworkMode: "none", Binds: []string{config + ":/etc/nomad.d:ro"}, ReadonlyRootfs: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.API.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { printLog(t, d.API, made.ID) })
	if out, err := execute(ctx, d.API, made.ID, "/usr/bin/nomad", "version"); err != nil || !strings.HasPrefix(out, "Nomad v") {
		t.Errorf("nomad version: %v\n%s", err, out)
	}
	testpace.Within(t, time.Minute, "a leader of the server in the container", func() bool {
		out, err := execute(ctx, d.API, made.ID, "/usr/bin/nomad", "operator", "api", "/v1/status/leader")
		return err == nil && strings.TrimSpace(out) == `"127.0.0.1:4647"`
	})
	stop := 30
	if _, err := d.API.ContainerStop(ctx, made.ID, client.ContainerStopOptions{Timeout: &stop}); err != nil {
		t.Fatal(err)
	}
	state, err := d.API.ContainerInspect(ctx, made.ID, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := state.Container; got.State.ExitCode != 0 || got.Config.User != "65532:65532" {
		t.Errorf("the server ended with the code %d as the user %q", got.State.ExitCode, got.Config.User)
	}
}

// Package getter is the program that downloads and unpacks the artifacts of a task, with go-getter. Package
// internal/fetch describes its interface. It runs confined as the task, and the client limits and checks what
// it does. Its own checks give errors that name the reason, and stop what the client cannot see:
//
//	dial.go     no connection to link-local, metadata and unspecified addresses
//	http.go     no silent cut of a response, no redirect to other protocols, headers only for their origin
//	proxy.go    checked connections for git, hg, S3 and GCS; no password of hg for other origins
//	git.go      no configuration, hooks, local repositories or arguments from a source
//	archive.go  no links, devices, sparse files, bombs or repeated names in archives
//
// The library is used as it is: the getters and decompressors of its client are wrapped. It never gets the
// file getter, .netrc files and the header X-Terraform-Get.
package getter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"time"

	gogetter "github.com/hashicorp/go-getter"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/dialguard"
	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/internal/sidecar"
)

func init() { companion.Register(sidecar.Fetch, run) }

// Exit statuses.
const (
	exitDone    = 0
	exitFailed  = 1
	exitTimeout = 2
)

// memoryLimit is a soft limit of the heap, below the limit of the control group (drivers.SidecarMemory).
const memoryLimit = 44 << 20

// run executes one request.
func run() int {
	debug.SetMemoryLimit(memoryLimit)
	signal.Ignore(unix.SIGXFSZ) // a file above the limit is an error of write(2)
	unix.Umask(0o022)
	done, err := serve(os.Stdin)
	if err == nil {
		return report(done, exitDone)
	}
	failed := fetch.Message{Kind: fetch.Failed, Text: describe(err)}
	if errors.Is(err, context.DeadlineExceeded) {
		return report(failed, exitTimeout)
	}
	return report(failed, exitFailed)
}

func report(m fetch.Message, status int) int {
	if err := fetch.Write(os.Stdout, m); err != nil {
		fmt.Fprintln(os.Stderr, "send the result:", err)
		return exitFailed
	}
	return status
}

// serve reads the request and executes its step.
func serve(in io.Reader) (fetch.Message, error) {
	req, err := fetch.ReadRequest(in)
	if err != nil {
		return fetch.Message{}, err
	}
	work, err := os.Getwd()
	if err != nil {
		return fetch.Message{}, err
	}
	for name, variable := range map[string]string{fetch.TempName: "TMPDIR", fetch.HomeName: "HOME"} {
		dir := filepath.Join(work, name)
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.Setenv(variable, dir)); err != nil {
			return fetch.Message{}, err
		}
	}
	j := &job{Request: req, work: work}
	if req.Archive != "" {
		return j.unpack()
	}
	return j.download()
}

// job is a request with the working directory.
type job struct {
	*fetch.Request
	work string
	got  counter
}

func (j *job) path(name string) string { return filepath.Join(j.work, name) }

// download executes the first step.
func (j *job) download() (fetch.Message, error) {
	source, err := fetch.ParseSource(j.Source, nil)
	if err != nil {
		return fetch.Message{}, err
	}
	kind, err := source.Kind()
	if err != nil {
		return fetch.Message{}, err
	}
	if err := dialguard.CheckHost(source.Host()); err != nil {
		return fetch.Message{}, err
	}
	if err := j.prepare(source, kind); err != nil {
		return fetch.Message{}, err
	}
	stop := j.reportProgress()
	defer stop()
	if kind == fetch.HTTP {
		return j.get(source)
	}
	p, err := startProxy(onlyOrigin(source, kind))
	if err != nil {
		return fetch.Message{}, err
	}
	defer p.stop()
	if p != nil && kind == fetch.Hg {
		if err := useProxyAlways(j.path(fetch.HomeName)); err != nil {
			return fetch.Message{}, err
		}
	}
	done, err := j.get(source)
	return done, p.explain(err)
}

// prepare sets up what the library takes from the process.
func (j *job) prepare(source fetch.Source, kind fetch.Kind) error {
	http.DefaultTransport = newTransport(false) // of the library's detectors
	if kind.Executes() {
		if err := checkVCS(source, j.path(fetch.TempName)); err != nil {
			return err
		}
		return setVCSEnvironment(j.work)
	}
	return setCloudEnvironment()
}

// get downloads the source and the signature.
func (j *job) get(source fetch.Source) (fetch.Message, error) {
	if j.Signature != "" {
		if err := j.getSignature(source); err != nil {
			return fetch.Message{}, fmt.Errorf("download the signature: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Timeouts.Longest())
	defer cancel()
	last := &lastFile{}
	c := j.client(ctx, source.URL(), j.path(fetch.OutName))
	c.Getters = j.getters(j.headersFor(source), last)
	c.Decompressors = keepers(j.path(fetch.ArchiveName))
	err := c.Get()
	switch {
	case errors.Is(err, errArchive):
		return fetch.Message{Kind: fetch.Done, Archive: true}, nil
	case err != nil:
		return fetch.Message{}, err
	}
	return j.result(last.path)
}

// result describes the downloaded file or directory. The library reports no error for a page of a server
// that should have been a directory.
func (j *job) result(file string) (fetch.Message, error) {
	out := j.path(fetch.OutName)
	info, err := os.Lstat(out)
	if errors.Is(err, os.ErrNotExist) {
		kind := "file"
		if j.Mode == fetch.ModeDir {
			kind = "directory"
		}
		return fetch.Message{}, fmt.Errorf("nothing was downloaded with mode %s: the source is neither a %s nor an archive", j.Mode, kind)
	}
	if err != nil {
		return fetch.Message{}, err
	}
	done := fetch.Message{Kind: fetch.Done}
	if !info.IsDir() || file != "" && filepath.Dir(file) == out {
		if done.File, err = filepath.Rel(j.work, file); err != nil {
			return fetch.Message{}, err
		}
	}
	return done, nil
}

// getSignature downloads the signature. The headers are sent only to the origin of the source.
func (j *job) getSignature(source fetch.Source) error {
	signature, err := fetch.ParseSource(j.Signature, nil)
	if err != nil {
		return err
	}
	kind, err := signature.Kind()
	if err != nil {
		return err
	}
	if kind.Executes() {
		return fmt.Errorf("a signature cannot be downloaded with %s", kind)
	}
	if err := dialguard.CheckHost(signature.Host()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Timeouts.Longest())
	defer cancel()
	small := &job{Request: &fetch.Request{Insecure: j.Insecure, Timeouts: j.Timeouts, Limits: fetch.Limits{Download: fetch.SignatureSize}},
		work: j.work}
	c := small.client(ctx, signature.URL(), j.path(fetch.SignatureName))
	c.Mode = gogetter.ClientModeFile
	c.Getters = small.getters(j.headersFor(source), &lastFile{})
	c.Decompressors = map[string]gogetter.Decompressor{}
	return c.Get()
}

// unpack executes the second step. The library selects the files as in the first one, but its getters provide
// the archive.
func (j *job) unpack() (fetch.Message, error) {
	decompressors, err := unpackers(j.Limits)
	if err != nil {
		return fetch.Message{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Timeouts.Longest())
	defer cancel()
	c := j.client(ctx, j.Source, j.path(fetch.OutName))
	c.Decompressors = decompressors
	c.Getters = map[string]gogetter.Getter{}
	for scheme := range j.getters(scoped{}, &lastFile{}) {
		c.Getters[scheme] = &present{archive: j.Archive}
	}
	finished := make(chan error, 1)
	go func() { finished <- c.Get() }()
	select {
	case err = <-finished:
	case <-ctx.Done(): // decompressors have no context; the process ends
		err = ctx.Err()
	}
	return fetch.Message{Kind: fetch.Done}, err
}

// reportProgress sends the progress each second until the returned function is called.
func (j *job) reportProgress() (stop func()) {
	ended, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				if n := j.got.bytes.Load(); n > 0 {
					//nolint:errcheck // the client ends the program if it reads no more
					fetch.Write(os.Stdout, fetch.Message{Kind: fetch.Progress, Bytes: n, Total: j.got.total.Load()})
				}
			}
		}
	}()
	return func() { close(ended); <-finished }
}

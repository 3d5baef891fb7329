package artifact

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"aead.dev/minisign"

	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/nomad"
)

// job is the download of one artifact.
type job struct {
	*Fetcher
	task     *Task
	index    int
	artifact *nomad.TaskArtifact
	mode     string
	source   fetch.Source
	kind     fetch.Kind
	place    place
	checksum *fetch.Checksum     // nil if none
	signer   *minisign.PublicKey // nil if none
	signed   fetch.Source        // the signature
	stage    *stage
}

func (f *Fetcher) newJob(t *Task, i int, a *nomad.TaskArtifact) (*job, error) {
	j := &job{Fetcher: f, task: t, index: i, artifact: a, mode: a.GetterMode}
	if j.mode == "" {
		j.mode = fetch.ModeAny
	}
	var err error
	if j.source, err = fetch.ParseSource(a.GetterSource, a.GetterOptions); err != nil {
		return nil, err
	}
	if j.kind, err = j.source.Kind(); err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	if j.place, err = newPlace(t, a.RelativeDest, j.mode == fetch.ModeFile); err != nil {
		return nil, err
	}
	if text := j.source.Option("checksum"); text != "" {
		if j.checksum, err = fetch.ParseChecksum(text); err != nil {
			return nil, err
		}
	}
	return j, j.setSignature(a.Verify)
}

// setSignature reads the verify block.
func (j *job) setSignature(v *nomad.ArtifactVerify) (err error) {
	if v == nil {
		return nil
	}
	var key minisign.PublicKey
	if err := key.UnmarshalText([]byte(strings.TrimSpace(v.MinisignKey))); err != nil {
		return errors.New("verify: minisign_key is not a public key of minisign")
	}
	if j.kind.Executes() {
		return fmt.Errorf("verify: a download with %s is not a file, so that it cannot be signed", j.kind)
	}
	j.signer, j.signed = &key, j.source.Signature()
	if v.Signature != "" {
		if j.signed, err = fetch.ParseSource(v.Signature, nil); err != nil {
			return fmt.Errorf("verify: signature: %w", err)
		}
	}
	if _, err := j.signed.Kind(); err != nil {
		return fmt.Errorf("verify: signature: %w", err)
	}
	return nil
}

// run downloads, checks and moves the artifact.
func (j *job) run(ctx context.Context) (r Result, err error) {
	if j.stage, err = newStage(j.task); err != nil {
		return Result{}, err
	}
	defer func() {
		if cleanErr := j.stage.remove(); cleanErr != nil {
			j.log.Warn("remove directory of a download", "task", j.task.Dir.Name(), "err", cleanErr)
		}
	}()
	have, err := j.obtain(ctx)
	if err != nil {
		return Result{}, err
	}
	digest := ""
	if have.sum != "" {
		digest = "sha256:" + have.sum
	}
	name, err := j.deliver(ctx, have)
	return Result{Digest: digest, Name: name}, err
}

// obtained is a download that is in the directory of the agent, or in "out" if it is not one file.
type obtained struct {
	sum     string // SHA-256 in hexadecimal; "" if it is not one file
	archive bool   // must be unpacked
	name    string // of the file
}

// obtain downloads the artifact, or takes it from the cache.
func (j *job) obtain(ctx context.Context) (*obtained, error) {
	key := j.key()
	if key == "" {
		return j.download(ctx)
	}
	for {
		if have, err := j.fromCache(ctx, key); have != nil || err != nil {
			return have, err
		}
		running, first := j.join(key)
		if first {
			return j.lead(ctx, key, running)
		}
		select {
		case <-running.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if have, err := j.fromCache(ctx, key); running.ok && have == nil && err == nil {
			return j.download(ctx) // it does not fit into the cache
		} else if have != nil || err != nil {
			return have, err
		}
	}
}

// lead downloads the artifact, for others that wait for it too.
func (j *job) lead(ctx context.Context, key string, flight *flight) (*obtained, error) {
	defer j.leave(key, flight)
	have, err := j.fromCache(ctx, key) // of a download that has just ended
	if have == nil && err == nil {
		have, err = j.downloadFor(ctx, key)
	}
	flight.ok = err == nil
	return have, err
}

// flight is a running download of a cacheable artifact.
type flight struct {
	ended chan struct{}
	ok    bool // read after ended is closed
}

// join returns the running download of the same artifact. If there is none, it registers the caller's.
func (f *Fetcher) join(key string) (running *flight, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.flights[key]; ok {
		return have, false
	}
	flight := &flight{ended: make(chan struct{})}
	f.flights[key] = flight
	return flight, true
}

// leave ends the caller's registration.
func (f *Fetcher) leave(key string, flight *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.flights, key)
	close(flight.ended)
}

// download downloads the artifact in the program, and checks it if it is one file.
func (j *job) download(ctx context.Context) (*obtained, error) {
	done, err := j.step(ctx, &fetch.Request{Source: j.source.URL(), Signature: j.signatureURL(), Headers: j.artifact.GetterHeaders})
	if err != nil {
		return nil, err
	}
	have := &obtained{archive: done.Archive}
	switch {
	case done.Archive:
		err = j.stage.takeArchive()
	case done.File != "":
		have.name, err = j.stage.takeFile(done.File)
	case j.signer != nil:
		return nil, errors.New("verify: the download is a directory, so that it cannot be signed")
	case j.checksum != nil:
		return nil, errors.New("the download is a directory, so that it has no checksum")
	default:
		return have, nil
	}
	if err != nil {
		return nil, err
	}
	have.sum, err = j.check(ctx)
	return have, err
}

func (j *job) signatureURL() string {
	if j.signer == nil {
		return ""
	}
	return j.signed.URL()
}

// deliver unpacks the download if it is an archive, checks it, and moves it into its destination. It returns the
// name relative to the task's directory.
func (j *job) deliver(ctx context.Context, have *obtained) (string, error) {
	from, name := j.stage.work, fetch.OutName
	switch {
	case have.archive:
		source := j.source.WithoutOptions("checksum") // verified by now, and maybe at a URL
		request := &fetch.Request{Source: source.URL(), Archive: j.stage.path(j.task, fetch.ArchiveName)}
		if _, err := j.step(ctx, request); err != nil {
			return "", err
		}
	case have.sum != "":
		from, name = j.stage.dir, fileName
		if err := from.SetMode(name, j.stage.mode); err != nil {
			return "", err
		}
	}
	if err := j.inspect(from, name); err != nil {
		return "", err
	}
	return j.place.merge(from, name, have.name)
}

package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/open-nomad/open-nomad/client/artifact/cache"
	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// fileMode is the mode of a cached file that is not an archive, as of a download.
const fileMode = 0o644

// fromCache copies the artifact from the cache. It returns nil if the cache does not have it.
func (j *job) fromCache(ctx context.Context, key string) (*obtained, error) {
	hit, err := j.Fetcher.cache.Get(ctx, key)
	if hit == nil || err != nil {
		return nil, err
	}
	defer hit.File.Close()
	name, mode := fileName, fs.FileMode(0o400)
	if hit.Archive {
		name, mode = fetch.ArchiveName, 0o444
	}
	to, err := j.stage.dir.Create(name, mode)
	if err != nil {
		return nil, err
	}
	err = safefs.Copy(to, hit.File)
	if err := errors.Join(err, to.Close()); err != nil {
		return nil, fmt.Errorf("copy from the artifact cache: %w", err)
	}
	j.stage.mode = fileMode
	return &obtained{sum: hit.SHA256, archive: hit.Archive, name: hit.Name}, nil
}

// downloadFor downloads the artifact and adds it to the cache. A cache that cannot be written does not fail the
// download.
func (j *job) downloadFor(ctx context.Context, key string) (*obtained, error) {
	j.Fetcher.cache.Missed()
	have, err := j.download(ctx)
	if err != nil {
		return nil, err
	}
	name := fileName
	if have.archive {
		name = fetch.ArchiveName
	}
	f, err := j.stage.dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	e := cache.Entry{SHA256: have.sum, Archive: have.archive, Name: have.name}
	if err := j.Fetcher.cache.Put(ctx, key, e, f); err != nil {
		j.log.Warn("add to the artifact cache", "err", err)
	}
	return have, nil
}

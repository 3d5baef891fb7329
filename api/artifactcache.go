package api

import "time"

// ArtifactCacheResponse is the state of a node's cache of artifacts. After a purge, Freed is the
// size of the removed files in bytes. It exists only in open-nomad.
type ArtifactCacheResponse struct {
	Cache *ArtifactCache
	Freed int64
}

// ArtifactCache lists the cached files of a node. A Limit of 0 means that the cache is off.
type ArtifactCache struct {
	Bytes   int64
	Limit   int64
	Hits    int64 // since the start of the agent
	Misses  int64
	Entries []ArtifactCacheEntry // most recently used first
}

// ArtifactCacheEntry is one downloaded file.
type ArtifactCacheEntry struct {
	SHA256 string
	Bytes  int64
	Used   time.Time
}

// TemplateRender is the result of rendering a template on demand. It exists only in open-nomad.
type TemplateRender struct {
	Destination string
	Changed     bool
	Diff        string // unified, only in a dry run
}

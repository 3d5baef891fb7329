package message

import "time"

// ArtifactCache is the state of a node's cache of artifacts. Bytes and Limit are in bytes; a limit of 0 disables the
// cache.
type ArtifactCache struct {
	Bytes   int64
	Limit   int64
	Hits    int64 // since the start of the agent
	Misses  int64
	Entries []ArtifactCacheEntry // most recently used first
}

// ArtifactCacheEntry is one downloaded file.
type ArtifactCacheEntry struct {
	SHA256 string // hexadecimal
	Bytes  int64
	Used   time.Time // last use
}

// TemplateRender is the result of rendering one template on demand.
type TemplateRender struct {
	Destination string // as in the job
	Changed     bool
	Diff        string // unified, only in a dry run
}

// Package migrate moves the data of a finished allocation to the allocation that replaces it. The
// data are the directories alloc/data and <task>/local.
//
//	same node:     old directory ──rename──▶ new directory
//	another node:  Source.Serve ──tar over HTTP──▶ Remote.Stream ──▶ Target.Receive
//	                                                   staging ──rename──▶ new directory
//
// The stream is that of Nomad 2.0: a tar with directories, regular files and symbolic links, names
// relative to the allocation's directory. An error of the sender is an entry NOMAD-<id>-ERROR.log.
// Two additions are negotiated by headers that Nomad 2.0 ignores:
//
//   - Resume. The receiver requests the bytes after an offset. The sender builds the same tar
//     again and omits the first bytes. A finished allocation does not change, so the tar is equal.
//   - Check. A trailer has the SHA-256 of the complete tar. It also detects data that changed
//     between two connections. A stream without a trailer is accepted.
//
// The sender is not trusted. Names and link targets must not leave the directory. Other types of
// entries are rejected, and setuid and setgid bits are removed. Limits bounds the size, the number
// of entries and the time. Both sides use directory descriptors only (internal/safefs), so a link
// that a task puts in the way is not followed.
//
// The package starts no goroutine that outlives a call.
package migrate

import (
	"errors"
	"time"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Names in the HTTP exchange.
const (
	// TokenHeader carries the migrate token.
	TokenHeader = "X-Nomad-Token"
	// OffsetHeader is the offset of the first wanted byte. The sender repeats it in the response.
	OffsetHeader = "X-Nomad-Migrate-Offset"
	// DigestTrailer is the SHA-256 of the complete tar in hexadecimal digits.
	DigestTrailer = "X-Nomad-Migrate-Sha256"
)

// stagingName is the directory in which received data is collected, in the new allocation's
// directory. Only root can enter it.
const stagingName = ".migrate"

// maxDepth is the maximum depth of directories. Each level needs a descriptor.
const maxDepth = 200

// ErrRefused is wrapped in every error about a stream whose content is not acceptable.
var ErrRefused = errors.New("refused")

// Limits bounds what a stream may use.
type Limits struct {
	// Bytes is the maximum disk space: the content without holes, and 4 KiB for each entry.
	Bytes int64
	// Stall is how long the sender may send nothing.
	Stall time.Duration
	// Total bounds the time of the complete stream.
	Total time.Duration
	// Attempts is the number of connections without progress before giving up.
	Attempts int
	// Pause is the time between two connections.
	Pause time.Duration
}

// entrySize is the disk space that each entry counts for.
const entrySize = 4096

// expansion is the ratio of a stream's length, holes included, to its disk space at most.
const expansion = 16

// slowest is the average rate that a stream must have, in bytes per second.
const slowest = 1 << 20

// For returns the limits for a group with a disk of a size.
func For(diskMB int) Limits {
	size := int64(diskMB) << 20
	return Limits{
		Bytes: size, Stall: time.Minute, Attempts: 5, Pause: time.Second,
		Total: 10*time.Minute + time.Duration(size/slowest)*time.Second,
	}
}

// Owner returns the owner of an entry. The arguments are the owner at the sender, the path
// relative to the allocation's directory, and the task that had the uid, "" if unknown.
type Owner func(path, task string, uid, gid int) (newUID, newGID int, err error)

// Target is the directory of the new allocation.
type Target struct {
	Dir   *safefs.Dir
	Tasks []string // of its group
	// Owner maps owners; nil keeps them. Without root, no owner is set.
	Owner Owner
}

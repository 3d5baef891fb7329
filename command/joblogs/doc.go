// Package joblogs prints the logs of all allocations of a job.
//
//	watch ──blocking queries──▶ allocations ──a task started──▶ one reader per log
//	                                                              │ turn (at most maxStreams)
//	                                       output ◀──complete lines┘
//
// A log is standard output or standard error of one task. Its reader keeps the position in the log
// (cursor), so that it continues after a lost connection without a gap and without a repetition. At
// most maxStreams logs are read at once. If there are more, readers take turns. A turn ends when
// the log has no new output for a while, or after a time limit.
//
// Follow ends when the job is dead and all logs were printed to their end. Print prints what is
// stored and ends.
//
// Goroutines: one per log, which Follow waits for. The package changes nothing on the servers.
package joblogs

import (
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// Limits of a run.
const (
	// maxStreams is the number of logs that are read at once. An agent accepts 100 connections from
	// one address by default, and other commands need some.
	maxStreams = 32
	// maxLogs limits the logs of one job. A reader that waits for its turn takes a few KiB.
	maxLogs = 10_000
	// maxLine is the length at which a line is broken.
	maxLine = 64 << 10
	// averageLine is the assumed length of a line in bytes, to request the last lines.
	averageLine = 120
)

// The lengths of a turn while other readers wait.
const (
	quietTurn = 500 * time.Millisecond // without output
	fullTurn  = 5 * time.Second
)

// Options select the logs of a job and the part to print.
type Options struct {
	Job, Namespace string
	Group, Task    string   // "" for all
	Types          []string // api.FSLogNameStdout, api.FSLogNameStderr
	Lines, Bytes   int64    // print only the last ones; negative for all
}

// origin returns where the first read of a log begins.
func (o *Options) origin() (string, int64) {
	switch {
	case o.Bytes >= 0:
		return api.OriginEnd, o.Bytes
	case o.Lines >= 0:
		return api.OriginEnd, o.Lines * averageLine
	}
	return api.OriginStart, 0
}

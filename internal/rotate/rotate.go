// Package rotate names the rotated files of a log, as Nomad does: agent.log becomes agent-<nanoseconds since 1970>.log.
//
// It is used by the agent's log file and by the audit log. It opens, renames and removes nothing: the callers do, each in
// its own directory and with its own permissions.
package rotate

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Name returns the name that the file gets when it is rotated at the given time.
func Name(file string, now time.Time) string {
	begin, ext := parts(file)
	return begin + strconv.FormatInt(now.UnixNano(), 10) + ext
}

// Expired returns the names of the oldest rotated files of a log beyond the newest keep. It ignores names that Name does
// not return.
func Expired(names []string, file string, keep int) []string {
	begin, ext := parts(file)
	var stamps []int64
	for _, name := range names {
		middle, ok := strings.CutPrefix(name, begin)
		if !ok || !strings.HasSuffix(middle, ext) {
			continue
		}
		middle = strings.TrimSuffix(middle, ext)
		if stamp, err := strconv.ParseInt(middle, 10, 64); err == nil && strconv.FormatInt(stamp, 10) == middle {
			stamps = append(stamps, stamp)
		}
	}
	slices.Sort(stamps)
	var out []string
	for _, stamp := range stamps[:max(0, len(stamps)-max(0, keep))] {
		out = append(out, begin+strconv.FormatInt(stamp, 10)+ext)
	}
	return out
}

// parts returns the text before and after the time in the name of a rotated file.
func parts(file string) (begin, ext string) {
	ext = filepath.Ext(file)
	return strings.TrimSuffix(file, ext) + "-", ext
}

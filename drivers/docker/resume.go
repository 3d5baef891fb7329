package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/docker/files"
	"github.com/open-nomad/open-nomad/plugins/logfaults"
)

// An earlier agent has copied the output of a container up to about the time of the last change of the
// log files. The daemon's log around that time is compared with their end, and what is new is copied.
const (
	copyLag    = 2 * time.Second       // between the daemon's log and the log files
	clockTick  = 10 * time.Millisecond // by which the kernel's times of files lag behind a clock
	maxOverlap = 1 << 20               // bytes that are compared
)

// resume copies what an earlier agent has not copied, and returns what copyLogs continues.
func (d *Driver) resume(ctx context.Context, t *task) (*copied, error) {
	have := &copied{}
	if t.pipes == nil || t.state.Stdout != "" {
		have.at = time.Now()
		return have, nil
	}
	dir, err := openLogDir(t.state)
	if errors.Is(err, fs.ErrNotExist) {
		return have, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // read only
	last := lastChange(dir, t.state.Name)
	if last.IsZero() {
		return have, nil
	}
	until := last.Add(clockTick)
	have.at = until.Add(time.Nanosecond)
	time.Sleep(min(time.Until(until), clockTick))
	out, errs, err := d.window(ctx, t, until.Add(-copyLag), until)
	if unreadable(err) {
		return have, nil // copyLogs reports it
	}
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name string
		had  []byte
		to   *os.File
		tail *bytes.Buffer
	}{{"stdout", out, t.pipes.out, &have.out}, {"stderr", errs, t.pipes.err, &have.errs}} {
		before := tail(dir, t.state.Name+"."+s.name+".", max(len(s.had), maxTail))
		fresh := s.had[overlap(s.had, before):]
		s.tail.Write(before[max(0, len(before)-maxTail):])
		s.tail.Write(fresh)
		if err := s.to.SetWriteDeadline(time.Now().Add(inspectTimeout)); err != nil {
			return nil, err
		}
		if _, err := s.to.Write(fresh); err != nil {
			return nil, err
		}
		if err := s.to.SetWriteDeadline(time.Time{}); err != nil {
			return nil, err
		}
	}
	d.event(t.id, logfaults.Event,
		"the agent was restarted: the output of the container is copied from "+last.UTC().Format(time.RFC3339)+
			" on; what the daemon's log has dropped since is missing",
		map[string]string{"since": last.UTC().Format(time.RFC3339Nano)})
	return have, nil
}

// window returns the output in the daemon's log between two times.
func (d *Driver) window(ctx context.Context, t *task, since, until time.Time) (stdout, stderr []byte, err error) {
	ctx, cancel := withTimeout(ctx)
	defer cancel()
	from, err := d.api.ContainerLogs(ctx, t.container,
		client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Since: logTime(since), Until: logTime(until)})
	if err != nil {
		return nil, nil, err
	}
	defer from.Close() //nolint:errcheck // a stream that was read
	var out, errs bytes.Buffer
	limited := io.LimitReader(from, maxOverlap)
	if t.state.Tty {
		_, err = io.Copy(&out, limited)
	} else {
		_, err = stdcopy.StdCopy(&out, &errs, limited)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // cut off by the limit
	}
	return out.Bytes(), errs.Bytes(), err
}

// logTime returns a time as the daemon takes it.
func logTime(at time.Time) string { return fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()) }

// overlap returns how many bytes of the daemon's output are the end of what was copied. It looks at the
// ends of lines, the longest match first.
func overlap(had, copied []byte) int {
	for end := len(had); end > 0; end = bytes.LastIndexByte(had[:end-1], '\n') + 1 {
		if bytes.HasSuffix(copied, had[:end]) {
			return end
		}
	}
	return 0
}

// openLogDir opens the directory of the log files.
func openLogDir(s *handleState) (*os.File, error) {
	inside, err := filepath.Rel(s.AllocDir, s.LogDir)
	if err != nil || !filepath.IsLocal(inside) {
		return nil, fmt.Errorf("log directory %s is not inside the allocation's directory", s.LogDir)
	}
	at, err := files.Existing(s.AllocDir, inside)
	if err != nil {
		return nil, fmt.Errorf("open the log directory: %w", err)
	}
	defer at.Close() //nolint:errcheck // opened with O_PATH
	return files.At(int(at.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY)
}

// maxLogNames limits how many log files are looked at.
const maxLogNames = 10_000

// names returns the names in a directory with a prefix.
func names(dir *os.File, prefix string) (out []string) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil
	}
	list, err := dir.Readdirnames(maxLogNames)
	if err != nil {
		return nil
	}
	for _, name := range list {
		if strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out
}

// lastChange returns the time of the last output in the log files of a task, zero if there is none.
func lastChange(dir *os.File, task string) (last time.Time) {
	for _, prefix := range []string{task + ".stdout.", task + ".stderr."} {
		for _, name := range names(dir, prefix) {
			var st unix.Stat_t
			if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Size == 0 {
				continue
			}
			if at := time.Unix(st.Mtim.Unix()); at.After(last) {
				last = at
			}
		}
	}
	return last
}

// tail returns up to n bytes from the end of the log files with a prefix, which have numbers.
func tail(dir *os.File, prefix string, n int) []byte {
	top := -1
	for _, name := range names(dir, prefix) {
		var number int
		if _, err := fmt.Sscanf(strings.TrimPrefix(name, prefix), "%d", &number); err == nil {
			top = max(top, number)
		}
	}
	var out []byte
	for ; top >= 0 && len(out) < n; top-- {
		part, err := fileEnd(dir, fmt.Sprint(prefix, top), n-len(out))
		if err != nil {
			break
		}
		out = append(part, out...)
	}
	return out
}

// fileEnd returns up to n bytes from the end of a file.
func fileEnd(dir *os.File, name string, n int) ([]byte, error) {
	f, err := files.At(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("is not a regular file"), err)
	}
	size := min(info.Size(), int64(n))
	out := make([]byte, size)
	_, err = f.ReadAt(out, info.Size()-size)
	return out, err
}

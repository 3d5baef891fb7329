package logsink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/memfd"
)

// JournalSocket is the default socket of systemd-journald.
const JournalSocket = "/run/systemd/journal/socket"

// journalPatience bounds the delivery of one line to a journal whose queue is full.
const journalPatience = 5 * time.Second

// Journal sends lines to systemd-journald with its native protocol: one datagram per entry, or a
// sealed memory file for entries that are too large for a datagram. The library
// github.com/coreos/go-systemd/v22/journal has a fixed socket, so that it could not be tested here.
type Journal struct {
	path string

	mu   sync.Mutex // held while an entry is sent, so that entries keep their order
	conn *net.UnixConn
}

// NewJournal returns a sink for the journal at a socket. It opens its own socket with the first entry.
func NewJournal(path string) *Journal { return &Journal{path: path} }

// Send implements Sink. The lines before an error may be in the journal.
func (j *Journal) Send(ctx context.Context, batch []Record) (rejected int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range batch {
		if err := ctx.Err(); err != nil {
			return rejected, err
		}
		err := j.entry(entryOf(&batch[i]))
		switch {
		case err == nil:
		case errors.Is(err, errTooLarge):
			rejected++
		default:
			j.close()
			return 0, fmt.Errorf("send to journal at %s: %w", j.path, err)
		}
	}
	return rejected, nil
}

var errTooLarge = errors.New("entry is too large")

// entry sends one entry.
func (j *Journal) entry(data []byte) error {
	if j.conn == nil {
		// Not connected: package net does not send descriptors on a connected socket.
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
		if err != nil {
			return err
		}
		j.conn = conn
	}
	if err := j.conn.SetWriteDeadline(time.Now().Add(journalPatience)); err != nil {
		return err
	}
	_, err := j.conn.WriteToUnix(data, j.addr())
	if !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	return j.file(data)
}

// file sends an entry as a memory file.
func (j *Journal) file(data []byte) error {
	f, err := memfd.New("journal-entry", data)
	if err != nil {
		return err
	}
	defer f.Close()
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("seal journal entry: %w", err)
	}
	_, _, err = j.conn.WriteMsgUnix(nil, syscall.UnixRights(int(f.Fd())), j.addr())
	if errors.Is(err, unix.EMSGSIZE) {
		return errTooLarge
	}
	return err
}

func (j *Journal) addr() *net.UnixAddr { return &net.UnixAddr{Name: j.path, Net: "unixgram"} }

func (j *Journal) close() {
	if j.conn != nil {
		j.conn.Close()
		j.conn = nil
	}
}

// entryOf returns the fields of a line in the format of the native protocol.
func entryOf(r *Record) []byte {
	priority := "6" // info
	if r.Stderr {
		priority = "3" // err
	}
	var b bytes.Buffer
	for _, f := range []struct{ name, value string }{
		{"PRIORITY", priority}, {"SYSLOG_IDENTIFIER", r.Subject.Task},
		{"NOMAD_NAMESPACE", r.Subject.Namespace}, {"NOMAD_JOB", r.Subject.Job}, {"NOMAD_GROUP", r.Subject.Group},
		{"NOMAD_ALLOC_ID", r.Subject.Alloc}, {"NOMAD_ALLOC_NAME", r.Subject.AllocName}, {"NOMAD_TASK", r.Subject.Task},
	} {
		field(&b, f.name, []byte(f.value))
	}
	field(&b, "MESSAGE", r.Line)
	return b.Bytes()
}

// field appends a field. A value with a newline has a length instead of an end.
func field(b *bytes.Buffer, name string, value []byte) {
	b.WriteString(name)
	if bytes.IndexByte(value, '\n') < 0 {
		b.WriteByte('=')
	} else {
		b.WriteByte('\n')
		b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(value))))
	}
	b.Write(value)
	b.WriteByte('\n')
}

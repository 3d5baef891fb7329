// Package logs moves the output of a task from its pipes to rotated files. The supervisor has one Collector for each
// task with logs. It reads no log: the agent does (client/logs), by the index.
//
//	pipe of stdout ──pump──▶ rotator ──▶ <Name>.stdout.0, <Name>.stdout.1, …
//	pipe of stderr ──pump──▶ rotator ──▶ <Name>.stderr.0, …
//	                            └── index <Root>/.logs-<Name>: the files, with their inode numbers
//
// Tasks can write to the directory of the files, but not to Root. Files that are not in the index do not count, such
// as planted ones with the names of later rotations. A rotation moves them away if they have its name. The format of
// the index is proc.LogIndex.
//
// The bytes go from pipe to file with splice(2), so that the death of the supervisor loses none. If a file cannot be
// written, for example on a full disk, the pump tries again every second and the task blocks: no byte is dropped.
//
// Goroutines: one for each pipe, until its last writer has closed it or Finish has ended it.
package logs

import (
	"errors"
	"os"
	"time"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// Pipes are the read ends of the pipes of a task, nonblocking, in the order of proc.Streams. A nil one has ended.
type Pipes [len(proc.Streams)]*os.File

// Close closes all pipes.
func (p *Pipes) Close() {
	for _, f := range p {
		f.Close() // nil is allowed
	}
}

// Collector moves the output of one task.
type Collector struct {
	pumps [len(proc.Streams)]*pump // nil: the stream has ended
}

// Start moves the content of the pipes, which it owns, to the files of l. Fault is called when the log of a stream
// cannot be written to, and with nil when it can be again. With an error, the Collector moves some of the streams.
func Start(l proc.Logs, pipes Pipes, inherit Inheritance, fault func(stream string, err error)) (*Collector, error) {
	c := &Collector{}
	defer pipes.Close() // those without a pump
	x, err := openIndex(l, inherit)
	if err != nil {
		return c, err
	}
	for i, stream := range proc.Streams {
		if pipes[i] == nil {
			continue
		}
		to, err := newRotator(l, stream, x)
		if err != nil {
			return c, err
		}
		c.pumps[i] = newPump(pipes[i], to)
		c.pumps[i].fault = func(err error) { fault(stream, err) }
		pipes[i] = nil
		go c.pumps[i].run()
	}
	return c, x.begin()
}

// Descriptors returns the descriptors of the pipes in the order of proc.Streams, -1 for one that has ended.
func (c *Collector) Descriptors() []int {
	var out []int
	for _, p := range c.pumps {
		out = append(out, p.descriptor())
	}
	return out
}

// Finish waits until the streams have ended, each for at most timeout. Then it cuts off writers that outlived the
// task. Everything written before is in the files by then, however long that takes.
func (c *Collector) Finish(timeout time.Duration) (err error) {
	for _, p := range c.pumps {
		if p != nil {
			err = errors.Join(err, p.finish(timeout))
		}
	}
	return err
}

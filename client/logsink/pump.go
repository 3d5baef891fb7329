package logsink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/client/logs"
	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// Delays of a pump.
const (
	pollFirst  = 100 * time.Millisecond
	pollMax    = 2 * time.Second
	retryFirst = time.Second
	retryMax   = 30 * time.Second
	sendLast   = time.Second // after the end of the agent
)

// pump copies one log to one sink.
type pump struct {
	src    source
	kind   string
	sink   *limited
	log    *slog.Logger
	ending atomic.Pointer[time.Time] // when the task ended, nil while it may write

	at     logs.Position // owned by run
	stored time.Time
}

func newPump(src source, kind string, sink *limited, log *slog.Logger) *pump {
	return &pump{src: src, kind: kind, sink: sink,
		log: log.With("alloc", src.subject.Alloc, "task", src.subject.Task, "sink", sink.name)}
}

func (p *pump) key() string {
	return p.src.subject.Alloc + "/" + p.src.subject.Task + "/" + p.kind + "/" + p.sink.name
}

func (p *pump) finish() {
	now := time.Now()
	p.ending.CompareAndSwap(nil, &now)
}

func (p *pump) again()         { p.ending.Store(nil) }
func (p *pump) finished() bool { return p.ending.Load() != nil }

// run copies until the log has ended or ctx ends.
func (p *pump) run(ctx context.Context) {
	if err := p.copy(ctx); err != nil && ctx.Err() == nil {
		p.log.Warn("copy log", "err", err)
		p.finish()
	}
}

func (p *pump) copy(ctx context.Context) error {
	dir, err := safefs.Open(p.src.dir)
	if errors.Is(err, fs.ErrNotExist) {
		p.finish()
		return nil // the allocation was removed
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	tree, err := logs.OpenTree(p.src.dir)
	if err != nil {
		return err
	}
	defer tree.Close()
	if err := p.load(dir); err != nil {
		return err
	}
	// The last position is stored also when the agent ends.
	defer p.store(dir)
	again := backoff.Backoff{Min: pollFirst, Max: pollMax}
	for {
		over := p.finished() // before the read, so that nothing is written after it
		n, err := p.next(ctx, tree, over)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case n > 0:
			again.Reset()
			if time.Since(p.stored) >= storeEvery {
				p.store(dir)
			}
			continue
		case over:
			return nil
		}
		if again.Wait(ctx) != nil {
			return nil
		}
	}
}

// next reads the next lines and delivers them. It returns their number.
func (p *pump) next(ctx context.Context, tree *logs.Tree, over bool) (int, error) {
	select {
	case p.sink.slots <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-p.sink.slots }()
	b, err := p.read(ctx, tree, over)
	if err != nil || len(b.records) == 0 {
		return 0, err
	}
	if err := p.deliver(ctx, b.records); err != nil {
		return 0, err
	}
	p.at = b.end
	return len(b.records), nil
}

// batch is a number of lines and the position behind them.
type batch struct {
	records []Record
	end     logs.Position
}

// read reads lines at the position. An incomplete line is left for later, unless the log is over or
// the line is too long.
func (p *pump) read(ctx context.Context, tree *logs.Tree, over bool) (batch, error) {
	b := batch{end: p.at}
	var data []byte
	var spans []span
	first := true
	err := tree.StreamLog(ctx, logs.Log{Task: p.src.subject.Task, Type: p.kind},
		logs.Range{From: &p.at, Limit: batchBytes}, logs.Output{Frame: func(f message.StreamFrame) ([]byte, error) {
			n, ok := logs.FileNumber(f.File)
			if !ok {
				return nil, nil
			}
			if first && n > p.at.File+1 && p.at != (logs.Position{}) {
				metrics.IncrCounterWithLabels([]string{"client", "logs", "missed_files"}, float32(n-p.at.File-1), p.labels())
			}
			first = false
			data = append(data, f.Data...)
			spans = append(spans, span{n, f.Offset, len(f.Data)})
			return nil, nil
		}, Sink: func([]byte) error { return nil }})
	if coded, ok := errors.AsType[*apierror.Coded](err); ok && coded.Code == http.StatusNotFound {
		return b, nil // no log yet
	}
	if err != nil || len(data) == 0 {
		return b, err
	}
	end, lines := complete(data)
	if end == 0 && len(data) < batchBytes && !over {
		return b, nil
	}
	if end == 0 || over && len(data) < batchBytes && lines < batchLines {
		end = len(data)
	}
	b.end = position(spans, end)
	now := time.Now()
	for line := range bytes.Lines(data[:end]) {
		b.records = append(b.records, Record{Subject: &p.src.subject, Stderr: p.kind == "stderr", Time: now,
			Line: bytes.TrimSuffix(line, []byte("\n"))})
	}
	return b, nil
}

// complete returns the length and the number of the complete lines at the beginning of data, at most batchLines.
func complete(data []byte) (end, lines int) {
	for ; lines < batchLines; lines++ {
		n := bytes.IndexByte(data[end:], '\n') + 1
		if n == 0 {
			break
		}
		end += n
	}
	return end, lines
}

// span is a part of a file: size bytes that end at an offset.
type span struct {
	file int
	end  int64
	size int
}

// position returns the position behind the first n bytes of spans.
func position(spans []span, n int) logs.Position {
	for _, s := range spans {
		if n <= s.size {
			return logs.Position{File: s.file, Offset: s.end - int64(s.size-n)}
		}
		n -= s.size
	}
	return logs.Position{} // unreachable: n is at most the size of all spans
}

// deliver sends a batch until the sink accepts it. After the end of the task it gives up in the end.
func (p *pump) deliver(ctx context.Context, records []Record) error {
	again := backoff.Backoff{Min: retryFirst, Max: retryMax}
	for {
		rejected, err := p.send(ctx, records)
		if err == nil {
			p.drop(rejected)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		p.log.Warn("send lines to log sink", "err", err)
		if ended := p.ending.Load(); ended != nil && time.Since(*ended) > finishPatience {
			p.drop(len(records))
			return nil
		}
		if err := again.Wait(ctx); err != nil {
			return err
		}
	}
}

// send sends a batch once. If ctx ends meanwhile, the request has sendLast to complete, because the next agent repeats lines
// whose acceptance this one has not seen.
func (p *pump) send(ctx context.Context, records []Record) (rejected int, err error) {
	request, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(sendLast, cancel) })()
	return p.sink.Send(request, records)
}

func (p *pump) labels() []metrics.Label { return []metrics.Label{{Name: "sink", Value: p.sink.name}} }

// drop counts lines that are lost.
func (p *pump) drop(n int) {
	if n > 0 {
		metrics.IncrCounterWithLabels([]string{"client", "logs", "dropped"}, float32(n), p.labels())
	}
}

// file returns the name of the file with the position, in the allocation's directory, where tasks
// cannot write.
func (p *pump) file() string {
	return logs.SinkPositionName(p.sink.name, p.kind, p.src.subject.Task)
}

// load reads the stored position.
func (p *pump) load(dir *safefs.Dir) error {
	text, err := dir.ReadFile(p.file(), 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &p.at); err != nil {
		// Damaged by a crash: the log is sent again.
		p.log.Warn("read position in log", "err", err)
		p.at = logs.Position{}
	}
	return nil
}

func (p *pump) store(dir *safefs.Dir) {
	text, err := json.Marshal(p.at)
	if err == nil {
		err = dir.Replace(p.file(), text, safefs.File{Mode: 0o600, UID: -1, GID: -1})
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("store position in log", "err", err)
	}
	p.stored = time.Now()
}

package supervise

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/spare"
	"github.com/open-nomad/open-nomad/internal/stage"
)

// quiet is how long there is no start before a stage is parked for the next: parking costs
// a core some milliseconds, which a crowd of starts needs for itself.
const quiet = 10 * time.Millisecond

// spares keeps one stage parked ahead of need (internal/stage): a start that finds it
// spares itself the fork, the execve and the Go runtime's beginning. One that finds none
// waits for none. Only root has it: others' namespaces are made otherwise.
//
//	(none) ──quiet──▶ parked ──start──▶ spent ──execve of the program──▶ (gone)
//
// Its goroutine parks; one more waits for each that is spent, until the program runs.
type spares struct {
	log   *slog.Logger
	busy  func() bool       // starts are under way
	ready chan *stage.Spare // buffered 1
	lull  spare.Lull        // of starts
	spent sync.WaitGroup
	stop  func() // ends what begin began; a no-op before
}

func newSpares(log *slog.Logger, busy func() bool) *spares {
	return &spares{log: log, busy: busy, ready: make(chan *stage.Spare, 1), lull: spare.NewLull(), stop: func() {}}
}

// begin has stages parked until end.
func (k *spares) begin() {
	if os.Geteuid() != 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		k.run(ctx)
	}()
	k.stop = func() { cancel(); <-over }
}

// end leaves no spare behind, and none of those that became a stage: no start may be
// under way.
func (k *spares) end() {
	k.stop()
	k.spent.Wait()
}

// note tells of a start that begins, or is over.
func (k *spares) note() { k.lull.Note() }

func (k *spares) run(ctx context.Context) {
	defer k.drop()
	for k.lull.Wait(ctx, quiet) {
		if k.busy() {
			continue
		}
		k.park()
		if !k.lull.Next(ctx) {
			return
		}
	}
}

// park parks one if there is none.
func (k *spares) park() {
	if len(k.ready) > 0 {
		return
	}
	s, err := stage.Park(ownProgram)
	if err != nil {
		k.log.Warn("starts take longer", "err", err)
		return
	}
	k.ready <- s // only we put
}

// take returns the spare, nil if there is none.
func (k *spares) take() *stage.Spare {
	select {
	case s := <-k.ready:
		return s
	default:
		return nil
	}
}

// drop ends the spare that nobody took.
func (k *spares) drop() {
	s := k.take()
	if s == nil {
		return
	}
	err := s.Close()
	if werr := s.Wait(); err == nil {
		err = werr
	}
	if err != nil {
		k.log.Warn("end the spare stage", "err", err)
	}
}

// spend reaps a spare that a start had. If it ended before the program was executed, with
// the threads of the stage's runtime, the start is ended.
func (k *spares) spend(s *stage.Spare, executed <-chan struct{}, end func() error) {
	k.spent.Go(func() {
		err := s.Wait()
		if err == nil {
			return
		}
		select {
		case <-executed:
		default:
			k.log.Warn("end a start whose stage lost its runtime", "err", err)
			if err := end(); err != nil {
				k.log.Error("end a start", "err", err)
			}
		}
	})
}

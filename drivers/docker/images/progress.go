package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/jsonstream"
)

// message is a message of the daemon about a pull or a load.
type message = jsonstream.Message

// eachMessage calls f for each message of a stream. A message with an error ends it.
func eachMessage(from io.Reader, f func(message)) error {
	in := json.NewDecoder(from)
	for {
		var m message
		if err := in.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if m.Error != nil {
			return m.Error
		}
		f(m)
	}
}

// layer is the state of a layer in a pull.
type layer struct {
	current, total int64
	pulling, done  bool
}

// maxLayers limits the layers whose progress is kept.
const maxLayers = 1000

// progress is what the daemon has reported about a pull.
type progress struct {
	mu     sync.Mutex
	begun  time.Time
	last   time.Time
	layers map[string]*layer
}

func newProgress() *progress {
	return &progress{begun: time.Now(), last: time.Now(), layers: map[string]*layer{}}
}

// add adds a message.
func (p *progress) add(m message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	l := p.layers[m.ID]
	switch m.Status {
	case "Pulling fs layer", "Waiting", "Downloading", "Verifying Checksum", "Download complete", "Extracting",
		"Pull complete", "Already exists":
	default:
		return // about the image
	}
	if l == nil {
		if m.ID == "" || len(p.layers) >= maxLayers {
			return
		}
		l = &layer{}
		p.layers[m.ID] = l
	}
	switch m.Status {
	case "Downloading":
		l.pulling = true
		if m.Progress != nil {
			l.current, l.total = m.Progress.Current, m.Progress.Total
		}
	case "Download complete", "Extracting":
		l.pulling, l.current = true, l.total
	case "Pull complete", "Already exists":
		l.pulling, l.done, l.current = false, true, l.total
	}
}

// idle returns the time since the last message.
func (p *progress) idle() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.last)
}

// String returns the progress in layers and bytes, with an estimate of the remaining time.
func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var done, waiting, pulling int
	var current, total int64
	for _, l := range p.layers {
		current, total = current+l.current, total+l.total
		switch {
		case l.done:
			done++
		case l.pulling:
			pulling++
		default:
			waiting++
		}
	}
	text := fmt.Sprintf("Pulled %d/%d (%s/%s) layers: %d waiting/%d pulling", done, len(p.layers), units.BytesSize(float64(current)),
		units.BytesSize(float64(total)), waiting, pulling)
	if elapsed := time.Since(p.begun); current > 0 && total > current {
		text += fmt.Sprintf(" - est %.1fs remaining", elapsed.Seconds()*float64(total-current)/float64(current))
	}
	return text
}

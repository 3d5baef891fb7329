//go:build linux

package faults

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// readsOfStopped is the number of reads that wait in the stopped leader.
const readsOfStopped = 32

// ReadOfStopped stops the leader, writes through the next one and reads from the old one, which is
// then continued. It returns an error if an answer is older than the write.
func ReadOfStopped(ctx context.Context, c *Cluster, round int64) error {
	old, err := c.Agree(ctx)
	if err != nil {
		return err
	}
	j, before, after := job(fmt.Sprintf("stopped-%d", round)), 2*round+1, 2*round+2
	if _, err := j.write(ctx, old.Client, before); err != nil {
		return err
	}
	if err := old.Stop(); err != nil {
		return err
	}
	defer old.Continue()
	next, err := c.Elected(ctx, old)
	if err != nil {
		return err
	}
	if _, err := j.write(ctx, next.Client, after); err != nil {
		return err
	}
	answers := make(chan seen, readsOfStopped)
	var wg sync.WaitGroup
	for range readsOfStopped {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, opWithin)
			defer cancel()
			if is, err := j.read(ctx, old.Client, false); err == nil {
				answers <- is
			}
		})
	}
	sent := time.After(300 * time.Millisecond) // they are in the old leader's sockets
	<-sent
	if err := old.Continue(); err != nil {
		return err
	}
	wg.Wait()
	close(answers)
	n := 0
	for is := range answers {
		if n++; is.value != after {
			return fmt.Errorf("%s, stopped while %s became the leader, answered %d, written before %d", old.Name, next.Name, is.value, after)
		}
	}
	if n == 0 {
		return fmt.Errorf("%s answered none of %d reads", old.Name, readsOfStopped)
	}
	_, err = c.Agree(ctx)
	return err
}

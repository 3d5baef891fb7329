package docker

import "time"

// Abandon ends the goroutines of the driver's tasks, as the end of an agent does. The containers
// continue.
func (d *Driver) Abandon() {
	d.mu.Lock()
	tasks := d.tasks
	d.tasks = map[string]*task{}
	d.mu.Unlock()
	for _, t := range tasks {
		t.cancel()
		t.pipes.Close()
		t.gone.Wait()
	}
}

// ShortenDangling sets times for the removal of containers that are below the minimum of the configuration.
func (d *Driver) ShortenDangling(period, grace time.Duration) {
	d.set.dangling.period, d.set.dangling.grace = period, grace
}

package docker

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

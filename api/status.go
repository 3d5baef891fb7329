package api

// Status is the handle for the status of the servers of a region.
type Status struct{ client *Client }

// Status returns the handle for the status of the servers of a region.
func (c *Client) Status() *Status { return &Status{c} }

// Leader returns the RPC address of the leader.
func (s *Status) Leader() (string, error) { return s.RegionLeader("") }

// RegionLeader returns the RPC address of the leader of a region.
func (s *Status) RegionLeader(region string) (string, error) {
	out, _, err := get[string](s.client, "/v1/status/leader", &QueryOptions{Region: region})
	return out, err
}

// Peers lists the RPC addresses of the servers.
func (s *Status) Peers() ([]string, error) {
	out, _, err := get[[]string](s.client, "/v1/status/peers", nil)
	return out, err
}

// Regions is the handle for regions.
type Regions struct{ client *Client }

// Regions returns the handle for regions.
func (c *Client) Regions() *Regions { return &Regions{c} }

// List lists the known regions.
func (r *Regions) List() ([]string, error) {
	out, _, err := get[[]string](r.client, "/v1/regions", nil)
	return out, err
}

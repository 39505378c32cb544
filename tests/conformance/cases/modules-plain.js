// config: {"bundle": false}

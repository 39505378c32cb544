// config: {"alone": true}

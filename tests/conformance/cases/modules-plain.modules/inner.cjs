exports.half = 21;

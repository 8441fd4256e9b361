export { AppError, ArgumentRangeError, InvalidArgumentError } from './AppError.js'
